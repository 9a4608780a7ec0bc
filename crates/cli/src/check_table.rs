//! The table `[check]` of `npcov.toml`: what suites must fulfil.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;

use npcov::coverage::{Allowance, ConditionError, Floor, Gate, Losses, ThinRule};
use serde::Deserialize;

use crate::args::{CheckArgs, ThinParts};

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct CheckTable {
    fail_under: Option<GateRules<Floor>>,
    fail_on_drop: Option<GateRules<Allowance>>,
    fail_on_loss: Option<Names>,
    fail_on_thin: Option<Thin>,
    pub(crate) against: Option<PathBuf>,
}

impl CheckTable {
    /// The rules; a flag takes the place of the key of its name. Where there is an earlier state and
    /// nothing else is said of it, nothing may be lost by SNPC.
    pub(crate) fn rules(&self, args: &CheckArgs, has_earlier: bool) -> Gate {
        let allowances = rules(&args.fail_on_drop, &self.fail_on_drop);
        let named = || self.fail_on_loss.as_ref().map(Names::list);
        let named = args.fail_on_loss.clone().or_else(named).map(Losses::By);
        let usual = || (has_earlier && allowances.is_empty()).then_some(Losses::Usual);
        Gate {
            floors: rules(&args.fail_under, &self.fail_under),
            losses: named.or_else(usual),
            allowances,
            thin_fails: args.fail_on_thin.map(ThinRule::from).or(self.thin_rule()),
        }
    }
}

impl CheckTable {
    /// The rules of the file alone, as far as they can be applied.
    pub(crate) fn own_rules(&self, has_earlier: bool) -> Gate {
        let losses = (self.fail_on_loss.as_ref()).map(|names| Losses::By(names.list()));
        let allowances = rules(&None, &self.fail_on_drop);
        let usual = || allowances.is_empty().then_some(Losses::Usual);
        Gate {
            floors: rules(&None, &self.fail_under),
            losses: losses.or_else(usual).filter(|_| has_earlier),
            allowances: if has_earlier { allowances } else { Vec::new() },
            thin_fails: self.thin_rule(),
        }
    }

    fn thin_rule(&self) -> Option<ThinRule> {
        match self.fail_on_thin.as_ref()? {
            Thin::Yes(yes) => yes.then_some(ThinRule::Classes),
            Thin::Parts(parts) => Some((*parts).into()),
        }
    }
}

/// Whether classes, or clusters too, must have inputs: `true`, `"classes"` or `"clusters"`.
#[derive(Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "expected `true`, `\"classes\"` or `\"clusters\"`"
)]
enum Thin {
    Yes(bool),
    Parts(ThinParts),
}

/// Names of criteria: `"snpc,anpc"`, or a list.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "expected names of criteria")]
enum Names {
    Text(String),
    List(Vec<String>),
}

impl Names {
    fn list(&self) -> Vec<String> {
        match self {
            Names::Text(text) => text.split(',').map(|name| name.trim().to_owned()).collect(),
            Names::List(list) => list.clone(),
        }
    }
}

fn rules<R: Clone>(flag: &Option<Vec<R>>, file: &Option<GateRules<R>>) -> Vec<R> {
    let file = || file.as_ref().map(|list| list.0.clone());
    flag.clone().or_else(file).unwrap_or_default()
}

/// Rules as on the command line (`"snpc=0.05,kmnc=40%"`), or a table of criteria.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(
    try_from = "GateTexts",
    bound(deserialize = "R: FromStr<Err = ConditionError>")
)]
struct GateRules<R>(Vec<R>);

#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "expected a number, rules as in a flag, or a table of criteria"
)]
enum GateTexts {
    One(Threshold),
    Table(BTreeMap<String, Threshold>),
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a number or a rule")]
enum Threshold {
    Whole(u32),
    Number(f64),
    Text(String),
}

impl Threshold {
    fn text(&self) -> String {
        match self {
            Threshold::Whole(number) => number.to_string(),
            Threshold::Number(number) => number.to_string(),
            Threshold::Text(text) => text.clone(),
        }
    }
}

impl<R: FromStr<Err = ConditionError>> TryFrom<GateTexts> for GateRules<R> {
    type Error = ConditionError;

    fn try_from(texts: GateTexts) -> Result<GateRules<R>, ConditionError> {
        let rules: Result<Vec<R>, ConditionError> = match &texts {
            GateTexts::One(rules) => rules.text().split(',').map(str::parse).collect(),
            GateTexts::Table(table) => table
                .iter()
                .map(|(criterion, rule)| format!("{criterion}={}", rule.text()).parse())
                .collect(),
        };
        rules.map(GateRules)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(text: &str) -> Result<CheckTable, toml::de::Error> {
        toml::from_str(text)
    }

    #[test]
    fn rules_are_text_or_tables() {
        let floors = |text: &str| table(text).unwrap().fail_under.unwrap().0;
        let expected = vec![
            "kmnc=0.8*random".parse().unwrap(),
            "snpc=5%".parse().unwrap(),
        ];
        assert_eq!(
            floors("fail-under = \"kmnc=0.8*random,snpc=0.05\""),
            expected
        );
        let as_table = "fail-under = { snpc = 0.05, kmnc = \"0.8*random\" }";
        assert_eq!(floors(as_table), expected);
        let drops = |text: &str| table(text).unwrap().fail_on_drop.unwrap().0;
        assert_eq!(drops("fail-on-drop = 0.01"), ["1%".parse().unwrap()]);
        assert_eq!(drops("fail-on-drop = 0"), ["0".parse().unwrap()]);
        let named = "fail-on-drop = { \"nc@0.5\" = 0.01 }";
        assert_eq!(drops(named), ["nc@0.5=0.01".parse().unwrap()]);
    }

    #[test]
    fn nothing_may_be_lost_by_criteria_that_are_named() {
        let names = |text: &str| table(text).unwrap().fail_on_loss.unwrap().list();
        let expected = ["snpc", "anpc"];
        assert_eq!(names("fail-on-loss = \"snpc, anpc\""), expected);
        assert_eq!(names("fail-on-loss = [\"snpc\", \"anpc\"]"), expected);
    }

    #[test]
    fn mistakes_are_found() {
        for wrong in [
            "fail-under = 0.05",
            "fail-under = \"snpc\"",
            "fail-under = { snpc = true }",
            "fail-under = { snpc = -1 }",
            "fail-on-drop = \"snpc\"",
            "fail-over = 1",
        ] {
            assert!(table(wrong).is_err(), "{wrong}");
        }
    }
}

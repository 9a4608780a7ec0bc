//! `npcov report` and `npcov check`.

use insta::assert_snapshot;
use serde_json::Value;

use crate::build::{json, succeed};
use crate::docs::docs;
use crate::support::Project;

/// A project with a decision graph of lenet, and three states: `old` with one suite `test`, `new`
/// with a smaller one of that name, and `two` with two suites.
fn with_states() -> Project {
    let project = Project::new();
    let data = "--data fashion-1000.npz";
    let build = format!("build lenet.onnx {data} --divide 255 --limit 300 --clusters 2 -o g.npcov");
    succeed(&project, &build);
    let cover = format!("cover g.npcov {data} --criteria snpc,kmnc:sections=10,tknp,nlc");
    succeed(
        &project,
        &format!("{cover} --name test --limit 80 -o old.npcov"),
    );
    succeed(
        &project,
        &format!("{cover} --name test --limit 40 -o new.npcov"),
    );
    succeed(
        &project,
        &format!(
            "{cover} --data fashion-1000.npz:x --name test --name more --limit 30 -o two.npcov"
        ),
    );
    project
}

#[test]
fn a_report_in_every_format() {
    let project = with_states();
    assert_snapshot!("report_text", project.snapshot("report new.npcov"));
    let against = "report new.npcov --against old.npcov";
    assert_snapshot!("report_text_against", project.snapshot(against));
    for format in ["markdown", "junit"] {
        let shown = project.snapshot(&format!("{against} --format {format}"));
        assert_snapshot!(format!("report_{format}"), shown);
    }
    assert_snapshot!(
        "report_two",
        project.snapshot("report two.npcov --against old.npcov")
    );
    assert_snapshot!(
        "report_two_markdown",
        project.snapshot("report two.npcov --format markdown")
    );
}

#[test]
fn all_shows_every_criterion() {
    let project = with_states();
    assert_snapshot!("report_all", project.snapshot("report new.npcov --all"));
}

/// A suite without class 9 beside a complete one of the same size, with copies, and half as large.
#[test]
fn what_is_lost_fails_and_chance_does_not() {
    let project = Project::new();
    let rows = project.rows("fashion-1000.npz", "x");
    let labels = project.rows("fashion-1000.npz", "y").concat();
    let suite = |name: &str, chosen: &[usize]| {
        let pixels: Vec<f32> = chosen.iter().flat_map(|&i| rows[i].clone()).collect();
        let labels: Vec<i64> = chosen.iter().map(|&i| labels[i] as i64).collect();
        project.npz(name, &[28, 28], &pixels, &labels);
        succeed(
            &project,
            &format!("cover g.npcov --data {name} --criteria snpc -o {name}.npcov"),
        );
    };
    let build = "build lenet.onnx --data fashion-1000.npz --divide 255 --limit 400 --clusters 1";
    succeed(&project, &format!("{build} --criteria snpc -o g.npcov"));
    let all: Vec<usize> = (400..1000).collect();
    let (earlier, other) = all.split_at(300);
    suite("earlier", earlier);
    suite("other", other);
    suite("smaller", &other[..150]);
    let without: Vec<usize> = (earlier.iter().copied())
        .filter(|&i| labels[i] as i64 != 9)
        .collect();
    suite("without", &without);
    let half: Vec<usize> = earlier[..150]
        .iter()
        .chain(&earlier[..150])
        .copied()
        .collect();
    suite("copies", &half);
    for name in ["other", "smaller", "without", "copies"] {
        let shown = project.snapshot(&format!("check {name}.npcov --against earlier.npcov"));
        assert_snapshot!(format!("lost_{name}"), shown);
    }
    // Without boots on purpose.
    project.write("shares.txt", "1 1 1 1 1 1 1 1 1 0\n");
    let declared = "check without.npcov --against earlier.npcov --class-shares shares.txt";
    assert_snapshot!("lost_declared", project.snapshot(declared));
    project.write("few.txt", "1 1\n");
    project.write("wrong.txt", "1 two\n");
    for shares in ["few.txt", "wrong.txt", "balance"] {
        let shown = project.snapshot(&format!("report other.npcov --class-shares {shares}"));
        assert_snapshot!(format!("shares_{shares}"), shown);
    }
}

#[test]
fn a_yardstick_says_what_it_was_computed_from() {
    let project = Project::new();
    let data = "--data fashion-1000.npz";
    let build = format!("build lenet.onnx {data} --divide 255 --limit 200 --clusters 1");
    let build = format!("{build} --criteria snpc,anpc --yardstick-inputs 50 -o g.npcov");
    succeed(&project, &build);
    succeed(
        &project,
        &format!("cover g.npcov {data} --limit 80 --name random -o s.npcov"),
    );
    assert_snapshot!("yardstick_sample", project.snapshot("report s.npcov --all"));
    for yardstick in ["random", "training"] {
        let check = format!("check s.npcov --fail-under anpc=0.01*{yardstick}");
        assert_snapshot!(format!("yardstick_{yardstick}"), project.snapshot(&check));
    }
}

#[test]
fn a_report_for_programs() {
    let project = with_states();
    // Without an earlier state it is what `cover` prints.
    assert_eq!(
        json(&project, "report new.npcov"),
        json(&project, "inspect new.npcov")
    );
    let both = json(&project, "report new.npcov --against old.npcov");
    let old = json(&project, "report old.npcov");
    let difference = &both["difference"];
    assert_eq!(
        (&difference["model_changed"], &difference["graph_changed"]),
        (&false.into(), &false.into())
    );
    let suite = &difference["suites"][0];
    let snpc = &suite["criteria"]["snpc"];
    assert_eq!(snpc["old"], old["suites"][0]["criteria"]["snpc"]);
    assert_eq!(snpc["new"], both["suites"][0]["criteria"]["snpc"]);
    // The earlier suite held all inputs of this one, so nothing is new, and what is lost is what
    // the values differ by.
    let things = &suite["things"]["snpc"];
    assert_eq!(things["new"], 0);
    let buckets = both["buckets"]["snpc"].as_f64().unwrap();
    let lost = -snpc["change"].as_f64().unwrap() * buckets;
    assert!(
        (things["lost"].as_f64().unwrap() - lost).abs() < 1e-6,
        "{suite}"
    );
    let counts = |key: &str| suite["inputs"][key].as_u64().unwrap();
    assert_eq!((counts("old"), counts("new")), (80, 40));
    for class in suite["classes"].as_array().unwrap() {
        assert!(class["inputs"]["new"].as_u64() < class["inputs"]["old"].as_u64());
    }
}

#[test]
fn suites_are_chosen_by_name() {
    let project = with_states();
    let one = json(
        &project,
        "report two.npcov --suite more --against old.npcov",
    );
    assert_eq!(one["suites"].as_array().unwrap().len(), 1);
    assert_eq!(one["suites"][0]["name"], "more");
    assert!(one["together"].is_null());
    // The earlier state has a single suite, but this one has not.
    assert_eq!(one["difference"]["suites"], Value::Array(Vec::new()));
    assert_eq!(one["difference"]["added"], serde_json::json!(["more"]));
    let all = json(&project, "report two.npcov --suite more --suite test");
    assert_eq!(all, json(&project, "report two.npcov"));
    assert_snapshot!(project.snapshot("report two.npcov --suite most"));
    assert_snapshot!(project.snapshot("check two.npcov --suite most --fail-under snpc=0"));
}

#[test]
fn another_model_or_other_criteria_are_compared_as_far_as_they_go() {
    let project = with_states();
    let data = "--data fashion-1000.npz";
    let build = "--divide 255 --limit 300 --clusters 2 -o h.npcov";
    succeed(&project, &format!("build lenet-dynamo.onnx {data} {build}"));
    let cover = format!("cover h.npcov {data} --limit 40 -o h-state.npcov");
    succeed(
        &project,
        &format!("{cover} --criteria snpc,kmnc,nlc --snpc-buckets 50"),
    );
    let found = json(&project, "report h-state.npcov --against new.npcov");
    let difference = &found["difference"];
    assert_eq!(
        (&difference["model_changed"], &difference["graph_changed"]),
        (&true.into(), &true.into())
    );
    let suite = &difference["suites"][0];
    assert_eq!(
        (&suite["name"], &suite["earlier"]),
        (&"fashion-1000.npz".into(), &"test".into())
    );
    let names: Vec<&String> = suite["criteria"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["nlc", "snpc"]);
    assert_eq!(suite["things"], serde_json::json!({}));
    assert_eq!(
        difference["not_compared"],
        serde_json::json!(["kmnc", "kmnc:sections=10", "tknp"])
    );
    assert_eq!(difference["choices"].as_array().unwrap().len(), 1);
    assert_snapshot!(
        project.snapshot("check h-state.npcov --against new.npcov --fail-on-drop 0.5")
    );
    assert_snapshot!(
        project.snapshot("check h-state.npcov --against new.npcov --fail-on-drop kmnc=0.5")
    );
}

#[test]
fn rules_hold_or_do_not() {
    let project = with_states();
    for (i, (options, code)) in [
        ("--fail-under snpc=0.5%,tknp=10,accuracy=0.5", 0),
        ("--fail-under snpc=0.5,kmnc=99%,accuracy=0.5", 1),
        ("--fail-under snpc=0.5*random,tknp=0.9*training", 1),
        ("--fail-on-thin", 0),
        ("--fail-on-drop 0.5 --against old.npcov", 0),
        ("--fail-on-drop 0,kmnc=1 --against old.npcov", 1),
        ("--fail-on-drop tknp=1,accuracy=1 --against old.npcov", 1),
        ("--fail-on-drop 1 --against two.npcov", 1),
        ("--fail-on-drop 1 --against two.npcov --suite test", 0),
        ("--fail-under snpc=0.5 --format json", 1),
        ("--fail-under snpc=0.5 --format junit", 1),
    ]
    .iter()
    .enumerate()
    {
        let shown = project.snapshot(&format!("check new.npcov {options}"));
        assert!(shown.contains(&format!("exit code: {code}\n")), "{shown}");
        assert_snapshot!(format!("check_{i:02}"), shown);
    }
}

#[test]
fn rules_that_cannot_be_applied_are_errors() {
    let project = with_states();
    for (i, arguments) in [
        "check new.npcov",
        "check new.npcov --fail-under snpc",
        "check new.npcov --fail-under spnc=0.5",
        "check new.npcov --fail-under snpc=5",
        "check new.npcov --fail-under nlc=0.5*random",
        "check two.npcov --fail-under accuracy=0.5",
        "check new.npcov --fail-on-drop 0.01",
        "check new.npcov --fail-on-drop=-1 --against old.npcov",
        "check new.npcov --fail-on-drop 0.01 --against missing.npcov",
        "check new.npcov --fail-on-drop 0.01 --against g.npcov",
        "check missing.npcov --fail-under snpc=0.5",
        "check lenet.onnx --fail-under snpc=0.5",
        "report g.npcov",
        "report",
        "report new.npcov --format html",
    ]
    .iter()
    .enumerate()
    {
        let shown = project.snapshot(arguments);
        assert!(shown.contains("exit code: 2\n"), "{shown}");
        assert_snapshot!(format!("check_error_{i:02}"), shown);
    }
}

#[test]
fn rules_come_from_the_file() {
    let project = with_states();
    let settings = |text: &str| project.write("npcov.toml", text);
    let code = |arguments: &str| project.run(arguments).code;
    settings("[check]\nfail-under = { snpc = 0.5 }\n");
    assert_eq!(code("check new.npcov"), Some(1));
    // A flag takes its place.
    assert_eq!(code("check new.npcov --fail-under snpc=0"), Some(0));
    settings("[check]\nfail-on-drop = 0\nagainst = \"old.npcov\"\n");
    assert_eq!(code("check new.npcov"), Some(1));
    assert_eq!(code("check new.npcov --against new.npcov"), Some(0));
    settings("[check]\nfail-on-thin = true\n");
    assert_eq!(code("check new.npcov"), Some(0));
    // The rules of the page on CI, with a suite that is classified worse than they want.
    let page = std::fs::read_to_string(docs().join("ci.md")).unwrap();
    let (_, rest) = page.split_once("```toml\n").unwrap();
    settings(rest.split_once("```").unwrap().0);
    let outcome = project.run("check new.npcov");
    assert_eq!(outcome.code, Some(1), "{}", outcome.stderr);
    let failed = "failed: suite `test`: accuracy is 85.00%, below 90.00%";
    assert!(outcome.stdout.starts_with(failed), "{}", outcome.stdout);
    settings("[check]\nfail-under = \"snpc=low\"\n");
    assert_snapshot!(project.snapshot("check new.npcov"));
}

#[test]
fn classes_with_few_inputs_fail() {
    let project = with_states();
    let images = project.rows("fashion-1000.npz", "x");
    let labels = project.rows("fashion-1000.npz", "y").concat();
    let tests = images.iter().zip(&labels).skip(300);
    let (x, y): (Vec<&[f32]>, Vec<i64>) = tests
        .filter(|(_, label)| **label != 9.0)
        .map(|(image, label)| (&image[..], *label as i64))
        .unzip();
    project.npz("fewer.npz", &[28, 28], &x.concat(), &y);
    succeed(
        &project,
        "cover g.npcov --data fewer.npz --criteria snpc -o fewer.npcov",
    );
    assert_snapshot!(project.snapshot("check fewer.npcov --fail-on-thin --fail-under snpc=0.5"));
}

#[test]
fn pages_find_their_graph_and_data() {
    let project = with_states();
    // Of what is measured, the suite's data must be named: its suite is called otherwise.
    let shown = project.run("report new.npcov --against old.npcov --html pages --format markdown");
    assert_eq!(shown.code, Some(0), "{}", shown.stderr);
    let link = "\n[The report with pictures](<pages/index.html>)\n";
    assert!(shown.stdout.contains(link), "{}", shown.stdout);
    assert!(
        shown
            .stderr
            .contains("note: the report is in `pages/index.html`"),
        "{}",
        shown.stderr
    );
    let read = |file: &str| std::fs::read_to_string(project.path(file)).unwrap();
    let numbers: Value = serde_json::from_str(&read("pages/report.json")).unwrap();
    // Training data and suite are one file here, which the graph names.
    assert_eq!(numbers["notes"], serde_json::json!([]));
    assert_eq!(numbers["suites"][0]["inputs"], 40);
    assert!(read("pages/index.html").contains("<h1>"));
    assert!(project.path("pages/pictures").is_dir());
    // The rules of the settings are the verdict, and JUnit links to where the pages will be.
    project.write("npcov.toml", "[check]\nfail-under = { accuracy = 1.0 }\n");
    let junit = "report old.npcov --single-file one.html --link https://ci/42 --format junit";
    let junit = project.run(junit);
    assert_eq!(junit.code, Some(0), "{}", junit.stderr);
    let property = "<property name=\"report\" value=\"https://ci/42\"/>";
    assert_eq!(
        junit.stdout.matches(property).count(),
        1,
        "{}",
        junit.stdout
    );
    assert!(read("one.html").contains("Failed: the rule does not hold"));
}

#[test]
fn pages_spare_what_is_read_and_what_is_there() {
    let project = with_states();
    for (command, reason) in [
        (
            "report new.npcov --single-file new.npcov",
            "`--single-file new.npcov` would overwrite what is read",
        ),
        (
            "report new.npcov --html fixtures",
            "`fixtures` holds other files than a report",
        ),
        (
            "report new.npcov --html pages --graph old.npcov",
            "old.npcov",
        ),
        (
            "report new.npcov --html pages --data missing.npz",
            "missing.npz",
        ),
    ] {
        std::fs::create_dir_all(project.path("fixtures")).unwrap();
        project.write("fixtures/thesis.tex", "years");
        let run = project.run(command);
        assert_eq!(run.code, Some(2), "{command}: {}", run.stderr);
        assert!(run.stderr.contains(reason), "{command}: {}", run.stderr);
    }
}

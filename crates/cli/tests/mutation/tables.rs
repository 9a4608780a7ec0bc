//! Tables, and texts that stand beside data.

use std::path::Path;

use npcov::coverage::ClassShares;
use npcov::data::{Digester, read_class_names, read_vocabulary};
use npcov::mutate::MutationState;

use crate::fixture;
use crate::mutator::{Random, change_bytes, change_text};

const WORDS: &[&str] = &[
    ",",
    "\n",
    "\r\n",
    "\"",
    "\"\"",
    "\t",
    " ",
    "nan",
    "inf",
    "-0",
    "1e400",
    "0x1",
    "\u{feff}",
    "\u{0}",
    "y",
    "99999999999999999999",
];

/// Opens a table, which reads all of it; `false` for one that is refused.
fn read(path: &Path) -> bool {
    npcov::data::open(path).is_ok_and(|samples| samples.digest().is_ok())
}

pub(crate) fn csv(number: u64, folder: &Path) -> bool {
    let mut random = Random::new("csv", number);
    let text = "a,\"b c\",d,y\n1,2.5,-3e2,0\n\"4\",5,6,1\n7,8,9,1\n";
    let mut bytes = match random.one_in(4) {
        true => text.as_bytes().to_vec(),
        false => change_text(&mut random, text, WORDS).into_bytes(),
    };
    if random.one_in(3) {
        change_bytes(&mut random, &mut bytes);
    }
    if random.one_in(50) {
        bytes = [
            random
                .choose(&[",", "\"", "a"])
                .repeat(10_000_000)
                .into_bytes(),
            bytes,
        ]
        .concat();
    }
    let path = folder.join(if random.one_in(2) {
        "mutant.csv"
    } else {
        "mutant.tsv"
    });
    std::fs::write(&path, bytes).unwrap();
    read(&path)
}

/// Footers and headers of pages are where sizes stand.
pub(crate) fn parquet(number: u64, folder: &Path) -> bool {
    let mut random = Random::new("parquet", number);
    let mut bytes = fixture("prices.parquet");
    let footer = {
        let tail = bytes.len() - 8;
        let len = u32::from_le_bytes(bytes[tail..tail + 4].try_into().unwrap());
        tail - len as usize
    };
    match random.one_in(3) {
        true => change_bytes(&mut random, &mut bytes),
        false => {
            let mut claims = bytes.split_off(footer);
            let tail = claims.split_off(claims.len() - 8);
            change_bytes(&mut random, &mut claims);
            bytes.extend(&claims);
            bytes.extend((claims.len() as u32).to_le_bytes());
            bytes.extend(&tail[4..]);
        }
    }
    let path = folder.join("mutant.parquet");
    std::fs::write(&path, bytes).unwrap();
    read(&path)
}

/// Words for tokens.
pub(crate) fn vocabulary(number: u64, folder: &Path) -> bool {
    let mut random = Random::new("vocabulary", number);
    let text = "[PAD]\n[UNK]\nthe\n##ing\n\u{e9}t\u{e9}\n";
    let mut bytes = change_text(&mut random, text, WORDS).into_bytes();
    if random.one_in(3) {
        change_bytes(&mut random, &mut bytes);
    }
    // Empty lines are what takes most memory for a byte.
    if random.one_in(200) {
        bytes.resize(random.below(32 << 20), b'\n');
    }
    let path = folder.join("vocabulary.txt");
    std::fs::write(&path, &bytes).unwrap();
    read_vocabulary(&path).is_ok()
}

/// Names of classes, and shares of them.
pub(crate) fn classes(number: u64, folder: &Path) -> bool {
    let mut random = Random::new("classes", number);
    let text = "0.5, 0.25\n\n0.25 1e-3\n";
    let mut bytes = change_text(&mut random, text, WORDS).into_bytes();
    if random.one_in(3) {
        change_bytes(&mut random, &mut bytes);
    }
    let path = folder.join("classes.txt");
    std::fs::write(&path, &bytes).unwrap();
    let _ = read_class_names(&path);
    String::from_utf8_lossy(&bytes)
        .parse::<ClassShares>()
        .is_ok()
}

/// What a suite has killed of mutants, with checksums that mostly fit.
pub(crate) fn killed(number: u64, folder: &Path) -> bool {
    let mut random = Random::new("killed", number);
    let state = r#"{"plan":{"model":"a digest","classes":3,"options":{"operators":["neb"],"ratios":[0.01],"mutants":10,"sd":0.1,"seed":0,"quality":0.9},"among":null,"mutants":[{"operator":"neb","ratio":0.01,"number":0},{"operator":"neb","ratio":0.01,"number":1}],"judged":{"data":"d","inputs":4,"correct":3,"by_mutant":[3,1]}},"suites":["a"],"inputs":2,"labelled":true,"correct":[1,0,1],"killed":[{"classes":[0],"correct":1},{"classes":[],"correct":2}]}"#;
    let words = &[
        "18446744073709551615",
        "-1",
        "1e308",
        "null",
        "[",
        "]",
        "{",
        "}",
        ",",
        "\"",
        "0",
        "1,",
        "\"gf\"",
        "[0,1,2]",
    ];
    let text = match random.one_in(4) {
        true => state.to_owned(),
        false => change_text(&mut random, state, words),
    };
    let rest = format!("\",{}\n", text.strip_prefix('{').unwrap_or(&text));
    let mut digester = Digester::default();
    digester.update(rest.as_bytes());
    let checksum = digester.finish();
    let mut bytes = format!("{{\"npcov-mutation\":2,\"sha256\":\"{checksum}{rest}").into_bytes();
    if random.one_in(5) {
        change_bytes(&mut random, &mut bytes);
    }
    let path = folder.join("mutant.json");
    std::fs::write(&path, bytes).unwrap();
    let Ok(mut state) = MutationState::read(&path) else {
        return false;
    };
    let _ = state.merge(&state.clone());
    let _ = state.report();
    true
}

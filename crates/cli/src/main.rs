//! The command line of npcov.
fn main() {}

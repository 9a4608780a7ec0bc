//! Whole commands: what they print, where, and their exit codes.
//!
//! Snapshots are in `snapshots/`; `INSTA_UPDATE=always cargo test -p npcov-cli` writes them anew.

mod compile;
mod config;
mod docs;
mod errors;
mod explain;
mod help;
mod inspect;
mod onnx;
mod predict;
mod support;

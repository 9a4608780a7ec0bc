//! Whole commands: what they print, where, and their exit codes.
//!
//! Snapshots are in `snapshots/`; `INSTA_UPDATE=always cargo test -p npcov-cli` writes them anew.

mod attack;
mod build;
#[cfg(unix)]
mod ci;
mod compile;
mod config;
mod cover;
mod demo;
mod docs;
mod errors;
mod explain;
mod export;
mod gaps;
mod garbage;
mod help;
#[cfg(unix)]
mod hostile;
mod init;
mod inspect;
mod lab;
mod manners;
mod mutate;
mod names;
mod onnx;
mod predict;
mod refusals;
mod report;
#[cfg(unix)]
mod resume;
#[cfg(unix)]
mod scale;
mod select;
mod sequences;
mod support;
mod tasks;

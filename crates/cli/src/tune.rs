//! `npcov tune`.

use crate::args::TuneArgs;
use crate::config::Config;
use crate::printer::Printer;

pub(crate) fn run(_: &TuneArgs, _: &Config, _: &Printer) -> anyhow::Result<()> {
    anyhow::bail!("being written")
}

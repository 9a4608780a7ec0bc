//! `npcov init`.

use crate::args::InitArgs;
use crate::config::Config;
use crate::printer::Printer;

pub(crate) fn run(_: &InitArgs, _: &Config, _: &Printer) -> anyhow::Result<()> {
    anyhow::bail!("being written")
}

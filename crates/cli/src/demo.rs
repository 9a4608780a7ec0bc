//! `npcov demo`.

use crate::args::DemoArgs;
use crate::config::Config;
use crate::printer::Printer;

pub(crate) fn run(_: &DemoArgs, _: &Config, _: &Printer) -> anyhow::Result<()> {
    anyhow::bail!("being written")
}

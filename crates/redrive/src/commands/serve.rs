use crate::out::Out;
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    settings: crate::config::FlagSettings,
}
pub(crate) fn run(_args: Args, _out: &mut Out) -> anyhow::Result<()> {
    Ok(())
}

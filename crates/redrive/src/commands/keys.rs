use crate::out::Out;
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    Create,
}
pub(crate) async fn run(_c: Command, _out: &mut Out) -> anyhow::Result<()> {
    Ok(())
}

//! `quiver get`.

use api::v1::{Config, GetRequest, GetResponse, Kind};
use clap::Args;
use clap_complete::ArgValueCandidates;

use super::kind::{Selector, full_name, selector};
use super::rows;
use crate::context::{Client, Context};
use crate::error::{Doing, Error};
use crate::exit::Exit;
use crate::output::{Form, OutputArgs};
use crate::reference::candidates;

/// What to list.
#[derive(Debug, Args)]
pub(crate) struct GetArgs {
    /// Kind (interface, if, bridge, br, vrf, route, neighbor…), KIND/NAME, or all
    #[arg(value_parser = selector, default_value = "all", hide_default_value = true)]
    #[arg(add = ArgValueCandidates::new(candidates::kinds))]
    kind: Selector,
    /// Name; a route's is VRF/PREFIX, a neighbour's INTERFACE/ADDRESS
    #[arg(value_name = "NAME", add = ArgValueCandidates::new(candidates::names_of_kind))]
    name: Option<String>,
    /// With -o json or toml: also what became of each object; such output can't be applied again
    #[arg(long)]
    status: bool,
    #[command(flatten)]
    output: OutputArgs,
}

/// Lists objects.
pub(crate) async fn get(context: &Context, args: &GetArgs) -> Result<Exit, Error> {
    let kind = args.kind.kind;
    let name = match (&args.name, &args.kind.name) {
        (Some(_), Some(_)) => {
            return Err(Error::Usage("give one name, either as KIND/NAME or as KIND NAME".into()));
        }
        (Some(_), None) if kind.is_none() => {
            return Err(Error::Usage("give the kind of that name, too".into()));
        }
        (Some(name), None) => kind.map_or_else(|| name.clone(), |kind| full_name(kind, name)),
        (None, name) => name.clone().unwrap_or_default(),
    };
    let mut response = objects(&mut context.connect().await?, kind, &name).await?;
    let text = match args.output.output {
        form if form == Form::Table || args.status => {
            form.write(&mut response, |response| rows::table(response, context.paint))?
        }
        form => form.write(&mut config(response), |_| String::new())?,
    };
    context.print(&text)?;
    Ok(Exit::Done)
}

/// Asks for objects and puts the parts of the answer together.
pub(crate) async fn objects(
    client: &mut Client,
    kind: Option<Kind>,
    name: &str,
) -> Result<GetResponse, Error> {
    let request = GetRequest { kind: kind.unwrap_or_default().into(), name: name.to_owned() };
    let mut stream = client.get(request).await.doing("get")?;
    let mut all = GetResponse::default();
    while let Some(part) = stream.message().await.doing("get")? {
        all.generation = part.generation;
        all.objects.extend(part.objects);
    }
    Ok(all)
}

/// The objects alone, as they can be applied.
fn config(response: GetResponse) -> Config {
    let mut config = Config::default();
    response.objects.into_iter().for_each(|object| config.push(object));
    config
}

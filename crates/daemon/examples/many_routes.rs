//! Measures what a large batch costs before it reaches the forwarding table:
//! `cargo run --release -p quiverd --example many_routes -- [routes] [next hops]`
#![allow(missing_docs)]

use std::error::Error;
use std::io::Write as _;
use std::net::Ipv4Addr;
use std::time::Instant;

use api::text::{Format, read_config, write};
use api::v1::{Config, NextHop, Route};
use quiverd::model::{Batch, Failures, Model, Readiness, conflicts};
use quiverd::reconcile::{Realised, plan};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default: u32| arguments.next().map_or(Ok(default), |text| text.parse());
    let (routes, hops) = (number(1_000_000)?, number(16)?.clamp(1, 60_000));
    println!("{routes} routes over {hops} next hops");

    let mut model = Model::default();
    let interface = "[[interface]]\nname = \"a\"\nsink = {}\naddresses = [\"10.0.0.1/16\"]";
    let lab =
        Batch::parse(&read_config(interface, Format::Toml)?, &[], false).map_err(|_| "the lab is refused")?;
    model.merge(&lab);
    let before = Readiness::of(&model, &Failures::new());
    let config = config(routes, hops);

    let batch = timed("check each route", || Batch::parse(&config, &[], false)).map_err(|_| "refused")?;
    let undo = timed("put into the model", || model.merge(&batch));
    let found = timed("look for conflicts", || conflicts::check(&model, &batch));
    let readiness = timed("find what is ready", || Readiness::of(&model, &Failures::new()));
    let mut moved = timed("find what else moves", || readiness.moved_routes(&before, &model));
    moved.extend(undo.changed_routes().cloned());
    let mut realised = Realised::default();
    let steps = timed("plan", || plan(&realised, &model, &readiness, &moved));
    timed("take note of what was done", || steps.iter().for_each(|step| realised.record(step)));
    let mut file = tempfile::tempfile()?;
    timed("write the state to disk", || {
        let mut out = std::io::BufWriter::with_capacity(1 << 18, &mut file);
        quiverd::state::write(&model, &mut out)?;
        out.flush()?;
        out.get_ref().sync_all()
    })?;
    println!("{} conflicts, {} steps, {} routes in force", found.len(), steps.len(), realised.routes());

    for format in [Format::Json, Format::Toml] {
        let text = timed(&format!("write as {format}"), || write(&config, format))?;
        timed(&format!("read {} MB of {format}", text.len() >> 20), || read_config(&text, format))?;
    }
    Ok(())
}

fn config(routes: u32, hops: u32) -> Config {
    let route = |number: u32| Route {
        prefix: format!("{}/32", Ipv4Addr::from(0x0b00_0000_u32.wrapping_add(number))),
        next_hops: vec![NextHop {
            address: Ipv4Addr::from(0x0a00_0002 + number % hops).to_string(),
            ..NextHop::default()
        }],
        ..Route::default()
    };
    Config { routes: (0..routes).map(route).collect(), ..Config::default() }
}

fn timed<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = work();
    println!("  {:>9.1} ms  {what}", start.elapsed().as_secs_f64() * 1e3);
    result
}

//! Tests over known workloads: kernels that are written once in Rust with CubeCL, and translated to a kernel source of the wanted dialect.

use parallax_ir::*;
use parallax_schema::case::DType;
use parallax_schema::device::Dialect;
use parallax_schema::testing::caps;
use parallax_schema::units::Nanos;
use parallax_workloads::parse_case;

#[test]
fn a_recipe_and_what_becomes_of_it_survive_the_way_to_another_program() {
    let stage = Stage::cube_over("cube_copy", 9).consts(&[("WIDTH", 4)]).consts(&[("WORDS", true)]);
    let program: Program = stage.consts(&[("EPS", 1e-5f32)]).into();
    let recipe = Recipe::new(program.kernels().next().expect("a kernel"), DType::F16, Dialect::Wgsl);
    let back: Recipe = serde_json::from_str(&serde_json::to_string(&recipe).expect("JSON")).expect("a recipe");
    assert_eq!(back, recipe);
    assert_eq!((back.name.as_str(), back.workgroup, back.elem), ("cube_copy", [256, 1, 1], DType::F16));
    let launch = Chosen { grid: [3, 2, 1], workgroup: [32, 4, 1], shared_bytes: 8, blueprint: "tiles".to_owned() };
    let translated =
        |launch| Translated { text: "fn".to_owned(), steps: vec![("emit".to_owned(), Nanos(1.5))], launch };
    for made in [
        Ok(translated(None)),
        Ok(translated(Some(launch))),
        Err(Untranslated::Refused("too deep".to_owned())),
        Err(Untranslated::Failed("no such".to_owned())),
    ] {
        let sent = serde_json::to_string(&made).expect("JSON");
        let back: Result<Translated, Untranslated> = serde_json::from_str(&sent).expect("it");
        assert_eq!(back, made);
    }
}

#[test]
fn without_compilers_a_skip_says_why() {
    let problem = parse_case("copy/fwd/n8/f32/cube").expect("valid").problem;
    let mut caps = caps();
    assert_eq!(cube_available(&problem, &caps), Err(NO_COMPILERS.to_owned()));
    caps.no_cube = Some("they did not load".to_owned());
    assert_eq!(cube_available(&problem, &caps), Err("they did not load".to_owned()));
    caps.cube = true;
    assert_eq!(cube_available(&problem, &caps), Ok(()));
}

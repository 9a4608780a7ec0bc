//! Files that want to do harm: each is refused with its name and exit code 2, in little memory, and nothing of the
//! user's is overwritten or told.

use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;

use flate2::write::ZlibEncoder;
use insta::assert_snapshot;
use npcov::data::npz::{Compression, NpzWriter};

use crate::onnx::{model, node, with_int, with_ints, with_text};
use crate::support::Project;

fn refused(project: &Project, arguments: &str) -> String {
    let outcome = project.in_little_memory(arguments);
    let told = format!("{arguments}: {:?}\n{}", outcome.code, outcome.stderr);
    assert_eq!(outcome.code, Some(2), "{told}");
    assert!(!outcome.stderr.contains("panicked"), "{told}");
    outcome.stderr
}

#[test]
fn a_batch_beyond_any_memory() {
    let project = Project::new();
    let nodes = [node("Relu", &["x"], "y")];
    let batch = 1u64 << 40;
    let net = model(&[("x", &format!("{batch}x5"))], &nodes, &[("y", "Nx5")]);
    project.write("net.onnx", net);
    assert_snapshot!(refused(&project, "inspect net.onnx"));
    let net = model(&[("x", &format!("1x{batch}"))], &nodes, &[("y", "N")]);
    project.write("net.onnx", net);
    assert_snapshot!(refused(&project, "inspect net.onnx"));
}

#[test]
fn an_axis_that_is_too_long_to_resize() {
    let project = Project::new();
    let resize = |extent: u64| {
        let sizes = [1, 1, 2, extent * 3 / 5];
        // An empty name is an argument that is left out.
        let resize = node("Resize", &["x", "", "", "sizes"], "resized");
        let resize = with_int(with_text(resize, "mode", "cubic"), "antialias", 1);
        let sizes = with_ints(node("Constant", &[], "sizes"), "value_ints", &sizes);
        let nodes = [sizes, resize, node("Flatten", &["resized"], "y")];
        model(
            &[("x", &format!("1x1x4x{extent}"))],
            &nodes,
            &[("y", "NxM")],
        )
    };
    let command = "compile net.onnx --program gradient --output out.onnx";
    project.write("net.onnx", resize(1 << 24));
    assert_snapshot!(refused(&project, command));
    // Not too long by itself, but its matrix of weights would have 77 billion elements.
    project.write("net.onnx", resize(360_000));
    assert_snapshot!(refused(&project, command));
    project.write("net.onnx", resize(40));
    assert_eq!(project.run(command).code, Some(0));
}

/// Of what is made for every neuron or class of a model, nothing is made before the model is known to be possible.
#[test]
fn values_beyond_any_memory() {
    let project = Project::new();
    project.npz("data.npz", &[4], &[0.5; 12], &[]);
    let ints =
        |name: &str, values: &[u64]| with_ints(node("Constant", &[], name), "value_ints", values);
    let tiled = |times: u64| {
        let nodes = [
            ints("times", &[1, times]),
            node("Tile", &["x", "times"], "y"),
        ];
        model(&[("x", "1x4")], &nodes, &[("y", "NxM")])
    };
    // A hidden layer of so many neurons, before the mean of all.
    let hidden = |times: u64| {
        let nodes = [
            ints("times", &[1, 1, times]),
            ints("shape", &[1, 4, 1]),
            node("Reshape", &["x", "shape"], "column"),
            node("Tile", &["column", "times"], "wide"),
            node("Relu", &["wide"], "hidden"),
            node("GlobalAveragePool", &["hidden"], "mean"),
            node("Flatten", &["mean"], "y"),
        ];
        model(&[("x", "1x4")], &nodes, &[("y", "NxM")])
    };
    let data = "net.onnx --data data.npz";
    let commands = [
        "inspect net.onnx".to_owned(),
        format!("predict {data}"),
        format!("explain {data} --index 0 --no-heatmap"),
        format!("build {data} -o g.npcov"),
        format!("mutate {data} --operators gf --mutants 1 --ratio 0.01"),
        format!("attack {data} -o a.npz"),
        "compile net.onnx --program trace -o o.onnx".to_owned(),
    ];
    for (net, reason) in [
        (
            tiled(1 << 40),
            "`y` of shape `1x4398046511104` is too large",
        ),
        (
            hidden(1 << 40),
            "`wide` of shape `1x4x1099511627776` is too large",
        ),
        (
            tiled(1 << 19),
            "tells 2097152 classes apart; at most 1048576 are looked at",
        ),
    ] {
        project.write("net.onnx", net);
        for command in &commands {
            let told = refused(&project, command);
            assert!(told.contains(reason), "{command}: {told}");
        }
    }
    project.write("net.onnx", hidden(4));
    for command in &commands[..2] {
        let outcome = project.run(command);
        assert_eq!(outcome.code, Some(0), "{command}: {}", outcome.stderr);
    }
}

/// Layers that a few lines of functions could ask for.
#[test]
fn layers_by_the_thousand() {
    let project = Project::new();
    let chain = |layers: usize| {
        let value = |i: usize| match i {
            0 => "x".to_owned(),
            i if i == layers => "y".to_owned(),
            i => format!("layer{i}"),
        };
        let relu = |i: usize| node("Relu", &[value(i).as_str()], &value(i + 1));
        let nodes: Vec<_> = (0..layers).map(relu).collect();
        model(&[("x", "Nx2")], &nodes, &[("y", "NxM")])
    };
    // The last one gives the logits.
    project.write("net.onnx", chain((1 << 14) + 2));
    let told = refused(&project, "inspect net.onnx");
    let reason = "has 16385 path layers; at most 16384 are looked at";
    assert!(told.contains(reason), "{told}");
    project.write("net.onnx", chain(100));
    assert_eq!(project.run("inspect net.onnx").code, Some(0));
}

#[test]
fn labels_by_the_million() {
    let project = Project::new();
    let mut writer = NpzWriter::create(project.path("bomb.npz"), Compression::Deflated).unwrap();
    let x = writer.array::<f32>("x", &[28, 28]).unwrap();
    writer.append(&x, &[0.0; 2 * 784]).unwrap();
    let y = writer.array::<u8>("y", &[]).unwrap();
    let zeros = vec![0; 1 << 20];
    (0..100).for_each(|_| writer.append(&y, &zeros).unwrap());
    writer.finish().unwrap();
    let size = std::fs::metadata(project.path("bomb.npz")).unwrap().len();
    assert!(size < 200_000, "{size}");
    assert_snapshot!(refused(&project, "predict lenet.onnx --data bomb.npz"));
}

/// A PNG of 2x2 pixels with a palette of 4 bytes: one colour and a third.
fn odd_palette() -> Vec<u8> {
    let mut pixels = ZlibEncoder::new(Vec::new(), flate2::Compression::default());
    pixels.write_all(&[0, 0, 0, 0, 0, 0]).unwrap();
    let header = [0, 0, 0, 2, 0, 0, 0, 2, 8, 3, 0, 0, 0];
    let mut bytes = b"\x89PNG\r\n\x1a\n".to_vec();
    let chunks: [(&[u8; 4], &[u8]); 4] = [
        (b"IHDR", &header),
        (b"PLTE", &[0; 4]),
        (b"IDAT", &pixels.finish().unwrap()),
        (b"IEND", &[]),
    ];
    for (kind, content) in chunks {
        let mut crc = flate2::Crc::new();
        crc.update(kind);
        crc.update(content);
        bytes.extend((content.len() as u32).to_be_bytes());
        bytes.extend(kind);
        bytes.extend(content);
        bytes.extend(crc.sum().to_be_bytes());
    }
    bytes
}

#[test]
fn an_image_that_the_decoder_fails_on() {
    let project = Project::new();
    project.write("images/odd.png", odd_palette());
    assert_snapshot!(refused(&project, "predict lenet.onnx --data images"));
}

#[test]
fn restarts_without_end() {
    let project = Project::new();
    let build = "build lenet.onnx --data fashion-1000.npz --limit 60 --restarts 1001 -o g.npcov";
    assert_snapshot!(refused(&project, build));
}

/// Training inputs in sixty shards, for a process that may have 56 files open.
#[test]
fn many_inputs_need_few_open_files() {
    let project = Project::new();
    let table = std::fs::read_to_string(project.path("prices.csv")).unwrap();
    let (head, rows) = table.split_once('\n').unwrap();
    let rows = rows.lines().cycle().take(60 * 512);
    let many: Vec<&str> = std::iter::once(head).chain(rows).collect();
    project.write("many.csv", many.join("\n"));
    let build =
        "build prices.onnx --data many.csv --clustering kmeans --criteria snpc -o many.npcov";
    let outcome = project.limited("ulimit -n 56", build);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
}

#[test]
fn a_temporary_folder_that_takes_nothing_is_named() {
    let project = Project::new();
    let mut writer = NpzWriter::create(project.path("zeros.npz"), Compression::Deflated).unwrap();
    let x = writer.array::<u8>("x", &[28, 28]).unwrap();
    // More than is decoded into memory.
    let zeros = vec![0; 1000 * 784];
    (0..24).for_each(|_| writer.append(&x, &zeros).unwrap());
    writer.finish().unwrap();
    let command = "predict lenet.onnx --data zeros.npz --limit 3 --quiet";
    let mut nowhere = project.command(command);
    nowhere.env("TMPDIR", "nowhere");
    let outcome = project.outcome(nowhere);
    assert_eq!(outcome.code, Some(2), "{}", outcome.stderr);
    assert_snapshot!(outcome.stderr);
    assert_eq!(project.run(command).code, Some(0));
}

#[test]
fn only_regular_files_are_read() {
    let project = Project::new();
    let made = Command::new("mkfifo").arg(project.path("fifo")).status();
    assert!(made.unwrap().success());
    std::fs::create_dir_all(project.path("images")).unwrap();
    for special in ["/dev/zero", "fifo", "images"] {
        let from = project.path("").join(special);
        for (link, commands) in [
            (
                "model.onnx",
                &[
                    "inspect model.onnx",
                    "compile model.onnx --program trace -o o.onnx",
                ][..],
            ),
            (
                "data.npz",
                &[
                    "predict lenet.onnx --data data.npz",
                    "predict lenet.onnx --data data.npz:x",
                ],
            ),
            ("images/1.png", &["predict lenet.onnx --data images"]),
            ("mlp-external.bin", &["inspect mlp-external.onnx"]),
            (
                "npcov.toml",
                &[
                    "inspect lenet.onnx",
                    "tune lenet.onnx --data fashion-1000.npz --write npcov.toml",
                ],
            ),
            (
                "graph.npcov",
                &[
                    "cover graph.npcov --data fashion-1000.npz -o s.npcov",
                    "inspect graph.npcov",
                ],
            ),
            (
                "shares.txt",
                &["report state.npcov --class-shares shares.txt"],
            ),
        ] {
            if special == "images" && ["data.npz", "images/1.png"].contains(&link) {
                continue;
            }
            let place = project.path(link);
            let _ = std::fs::remove_file(&place);
            std::os::unix::fs::symlink(&from, &place).unwrap();
            for command in commands {
                let told = refused(&project, command);
                // A device lies outside of the model's folder, where weights are not even looked at.
                let outside = link == "mlp-external.bin" && special == "/dev/zero";
                let reason = match outside {
                    true => "outside of the model's folder",
                    false => "not a regular file",
                };
                assert!(told.contains(reason), "{special}, {command}: {told}");
            }
            std::fs::remove_file(place).unwrap();
        }
    }
}

#[test]
fn what_is_no_toml_is_not_shown() {
    let project = Project::new();
    project.write("secret", "root:hunter2\nmore\n");
    assert_snapshot!(refused(&project, "inspect lenet.onnx --config secret"));
    project.write("secret", [0xff, 0xfe, b'x']);
    assert_snapshot!(refused(&project, "inspect lenet.onnx --config secret"));
    // Settings of another program, of which only the key is told.
    project.write("secret", "# mine\n  PASSWORD = \"hunter2\"\n");
    assert_snapshot!(refused(&project, "inspect lenet.onnx --config secret"));
}

/// A graph that names its model by a way out of its folder, as one from somebody else may.
#[test]
fn a_graph_does_not_tell_of_other_files() {
    let project = Project::new();
    let build =
        "build lenet.onnx --data fashion-1000.npz --divide 255 --limit 60 --criteria snpc -o";
    std::fs::create_dir_all(project.path("there/graphs")).unwrap();
    let outcome = project.run(&format!("{build} there/graphs/g.npcov"));
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let cover = "cover there/graphs/g.npcov --data fashion-1000.npz --limit 20 -o s.npcov";
    assert_eq!(project.run(cover).code, Some(0));
    // In the place of the model: nothing, another model, no model, no file. Nobody sees a difference.
    let honest = project.path("lenet.onnx");
    let own = std::fs::read(&honest).unwrap();
    std::fs::remove_file(&honest).unwrap();
    let nothing = refused(&project, cover);
    assert_snapshot!(nothing);
    project.write(
        "lenet.onnx",
        std::fs::read(project.path("keras.onnx")).unwrap(),
    );
    assert_eq!(refused(&project, cover), nothing);
    project.write("lenet.onnx", "root:hunter2");
    assert_eq!(refused(&project, cover), nothing);
    std::fs::remove_file(&honest).unwrap();
    std::fs::create_dir(&honest).unwrap();
    assert_eq!(refused(&project, cover), nothing);
    // Beside the graph it is found.
    project.write("there/graphs/lenet.onnx", own);
    assert_eq!(project.run(cover).code, Some(0));
}

#[test]
fn no_input_is_overwritten() {
    let project = Project::new();
    let build = "build lenet.onnx --data fashion-1000.npz --divide 255 --limit 60 --criteria snpc";
    let outcome = project.run(&format!("{build} -o g.npcov"));
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let cover = "cover g.npcov --data fashion-1000.npz --limit 20";
    assert_eq!(project.run(&format!("{cover} -o s.npcov")).code, Some(0));
    project.write("npcov.toml", "threads = 1\n");
    let link = |kind: &str, name: &str| {
        let (from, to) = (project.path(name), project.path(&format!("{kind}-{name}")));
        match kind {
            "hard" => std::fs::hard_link(from, to),
            _ => std::os::unix::fs::symlink(from, to),
        }
        .unwrap();
    };
    for name in [
        "lenet.onnx",
        "fashion-1000.npz",
        "g.npcov",
        "s.npcov",
        "mlp-external.bin",
    ] {
        link("hard", name);
        link("soft", name);
    }
    let before = contents(project.path("").as_path());
    let external = "mlp-external.onnx --data fashion-1000.npz --divide 255";
    let lenet = "lenet.onnx --data fashion-1000.npz --divide 255";
    let mut commands = vec![
        format!("{cover} -o new.npcov --inputs new.npcov"),
        format!("{cover} -o new.npcov --inputs ./new.npcov"),
        format!("merge s.npcov -o s.npcov"),
        format!("explain g.npcov --data fashion-1000.npz --index 0 --heatmap lenet.onnx"),
        format!("explain {lenet} --index 0 --heatmap out --output ./out"),
        format!("tune {lenet} --write lenet.onnx"),
        format!("init {lenet} --force --output lenet.onnx"),
    ];
    for file in ["lenet.onnx", "fashion-1000.npz", "g.npcov", "npcov.toml"] {
        for name in [
            file.to_owned(),
            format!("hard-{file}"),
            format!("soft-{file}"),
        ] {
            if !project.path(&name).exists() {
                continue;
            }
            commands.push(format!("{cover} -o {name}"));
            commands.push(format!("{cover} -o new.npcov --inputs {name}"));
            let graph = "g.npcov --data fashion-1000.npz --limit 20";
            commands.push(format!("select {graph} --by random --count 3 -o {name}"));
            commands.push(format!("minimize {graph} -o {name}"));
            if file != "g.npcov" {
                commands.push(format!("build {lenet} -o {name}"));
                commands.push(format!("predict {lenet} -o {name}"));
                commands.push(format!("attack {lenet} --limit 2 -o {name}"));
                commands.push(format!("explain {lenet} --index 0 --heatmap {name}"));
                commands.push(format!("explain {lenet} --index 0 --no-heatmap -o {name}"));
            }
        }
    }
    for name in [
        "mlp-external.bin",
        "hard-mlp-external.bin",
        "soft-mlp-external.bin",
    ] {
        for command in ["build", "predict", "attack --limit 2", "explain --limit 2"] {
            commands.push(format!("{command} {external} -o {name}"));
        }
        commands.push(format!(
            "compile mlp-external.onnx --program trace -o {name}"
        ));
        commands.push(format!("tune {external} --write {name}"));
        commands.push(format!("init {external} --force --output {name}"));
    }
    for command in commands {
        let outcome = project.run(&command);
        let told = format!("{command}: {:?}\n{}", outcome.code, outcome.stderr);
        assert_eq!(outcome.code, Some(2), "{told}");
        let refused = ["would overwrite what is read", "are the same file"];
        assert!(
            refused.iter().any(|text| outcome.stderr.contains(text)),
            "{told}"
        );
    }
    assert!(
        contents(project.path("").as_path()) == before,
        "something was written"
    );
}

/// The same for what a command finds by itself, for results with names of their own, and for every verb.
#[test]
fn nothing_that_is_found_is_overwritten() {
    let project = Project::new();
    let lenet = "lenet.onnx --data fashion-1000.npz --divide 255";
    let build = format!("build {lenet} --limit 60 --criteria snpc -o g.npcov");
    let outcome = project.run(&build);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let cover = "cover g.npcov --data fashion-1000.npz --limit 20";
    assert_eq!(project.run(&format!("{cover} -o s.npcov")).code, Some(0));
    project.write("shares.txt", "1 ".repeat(10));
    project.write("lab/rq1.txt", "0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n");
    project.write("names.txt", "a\nb\n");
    project.write("mutants/notes", "");
    let graph = std::fs::read(project.path("g.npcov")).unwrap();
    project.write("mutants/gf-0.01-0.onnx", &graph);
    let before = contents(&project.path(""));
    let mutate = format!("mutate {lenet} --limit 5 --operators gf --mutants 1 --ratio 0.01");
    let mut commands = vec![
        format!("{cover} --class-shares shares.txt -o shares.txt"),
        format!("{cover} --class-shares shares.txt -o new --inputs shares.txt"),
        "gaps g.npcov s.npcov --class-shares shares.txt --picture shares.txt".to_owned(),
        "report s.npcov --class-shares shares.txt --single-file shares.txt".to_owned(),
        "report s.npcov --words names.txt --single-file names.txt".to_owned(),
        "report s.npcov --feature-names names.txt --single-file names.txt".to_owned(),
        "report s.npcov --html new --single-file new/report.html".to_owned(),
        format!("{mutate} --mutants-to mutants -o mutants/gf-0.01-0.onnx"),
        format!("{mutate} --mutants-to mutants --predictions mutants/gf-0.01-0.onnx"),
        format!("{mutate} --mutants-to mutants --graph mutants/gf-0.01-0.onnx --paths inside"),
        format!("lab rq1 {lenet} --quick --class-names lab/rq1.txt -o lab"),
        format!("lab rq2 {lenet} --quick --class-names lab/rq2.txt -o lab"),
    ];
    for found in ["lenet.onnx", "fashion-1000.npz", "g.npcov", "s.npcov"] {
        commands.push(format!("report s.npcov --single-file {found}"));
        commands.push(format!("gaps g.npcov s.npcov --picture {found}"));
    }
    project.write("lab/rq2.txt", "0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n");
    for command in commands {
        let outcome = project.run(&command);
        let told = format!("{command}: {:?}\n{}", outcome.code, outcome.stderr);
        assert_eq!(outcome.code, Some(2), "{told}");
        let refused = ["would overwrite what is read", "are the same file"];
        assert!(
            refused.iter().any(|text| outcome.stderr.contains(text)),
            "{told}"
        );
    }
    let after = contents(&project.path(""));
    assert!(after == before, "something was written");
    assert_eq!(
        std::fs::read(project.path("mutants/gf-0.01-0.onnx")).unwrap(),
        graph
    );
    programs_overwrite_nothing(&project, &graph);
}

/// The same by way of `embed`.
fn programs_overwrite_nothing(project: &Project, bytes: &[u8]) {
    use npcov_cli::embed::graph::{GapData, cover, explain, gaps, minimize, open, select};
    use npcov_cli::embed::{Data, FileOrBytes, Listener};
    let file = project.path("g.npcov");
    let graph = open(FileOrBytes::File(&file), None, &[], None).unwrap();
    let data = Data::open(project.path("fashion-1000.npz")).unwrap();
    let coverage = npcov::Coverage::open(project.path("s.npcov")).unwrap();
    let options = |list: &[&str]| -> Vec<String> { list.iter().map(|o| o.to_string()).collect() };
    let few = options(&["--limit=5"]);
    let chosen = options(&["--limit=5", "--by=random", "--count=2"]);
    let first = options(&["--index=0"]);
    let mut silent = ();
    let told = &mut Listener::new(&mut silent);
    let suites = [("suite".to_owned(), data.clone())];
    let pool = GapData {
        pool: Some(data.clone()),
        shown: Vec::new(),
    };
    for output in ["g.npcov", "lenet.onnx", "fashion-1000.npz"] {
        let output = project.path(output);
        let output = Some(output.as_path());
        for error in [
            cover(&graph, &suites, &few, None, output, told).err(),
            select(&graph, &data, &chosen, None, output, told).err(),
            minimize(&graph, &data, &few, None, output, told).err(),
            gaps(&graph, &coverage, &pool, &few, output, told).err(),
            explain(&graph, &data, &first, output, told).err(),
        ] {
            let error = error.expect("it is refused").to_string();
            assert!(error.contains("would overwrite what is read"), "{error}");
        }
    }
    assert_eq!(std::fs::read(&file).unwrap(), bytes);
    // What is taken into memory is a regular file, too.
    let error = open(
        FileOrBytes::File(Path::new("/dev/zero")),
        Some(FileOrBytes::Bytes(b"")),
        &[],
        None,
    );
    let error = format!("{:#}", error.err().unwrap());
    assert!(error.contains("it is not a regular file"), "{error}");
}

/// A library is code: settings, which lie in the folder, do not say which one is loaded.
#[test]
fn settings_load_no_code() {
    let project = Project::new();
    for engine in ["onnxruntime@./evil.so", "onnxruntime:cpu@/x/evil.so"] {
        project.write("npcov.toml", format!("engine = \"{engine}\"\n"));
        for command in ["inspect lenet.onnx", "predict lenet.onnx --engine native"] {
            let told = refused(&project, command);
            assert!(told.contains("settings do not name a library"), "{told}");
            assert!(!told.contains("cannot be loaded"), "{told}");
        }
    }
}

/// All files of a folder, with what is in them.
fn contents(folder: &Path) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let read = |path: std::path::PathBuf| {
        let bytes = std::fs::read(&path).unwrap_or_default();
        (path, bytes)
    };
    files.into_iter().map(read).collect()
}

#[test]
fn names_are_shown_and_not_obeyed() {
    let project = Project::new();
    let relu = "relu\u{1b}[2J\u{202e}\nerror: all is lost";
    let nodes = [
        node("Relu", &["x"], relu),
        node("GlobalAveragePool", &[relu], "pool"),
        node("Flatten", &["pool"], "y\u{7}"),
    ];
    project.write(
        "net.onnx",
        model(&[("x", "Nx3x2x2")], &nodes, &[("y\u{7}", "Nx3")]),
    );
    project.npz("data.npz", &[3, 2, 2], &[1.0; 24], &[]);
    assert_snapshot!(project.snapshot("inspect net.onnx"));
    assert_snapshot!(project.snapshot("explain net.onnx --data data.npz --index 0 --no-heatmap"));
    let json = project.run("inspect net.onnx --format json").stdout;
    assert!(!json.chars().any(|c| c.is_control() && c != '\n'), "{json}");
    let read: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(read["path_layers"][0]["name"], relu);
    // In an error as well.
    let nodes = [node("Magic\u{1b}[31m", &["x"], "y\u{9b}m\nwarning: none")];
    project.write("net.onnx", model(&[("x", "Nx3")], &nodes, &[("y", "Nx3")]));
    let told = project.run("predict net.onnx --data data.npz").stderr;
    assert!(!told.chars().any(|c| c.is_control() && c != '\n'), "{told}");
    assert!(
        !told.lines().any(|line| line.starts_with("warning")),
        "{told}"
    );
}

/// Names of classes and suites come from files and people.
#[test]
fn reports_cannot_be_broken_by_names() {
    let project = Project::new();
    let class = "a|b <c> ```\u{1b}[2J\u{202e}\u{9b}m & \"d\"";
    let names: Vec<String> = (0..10).map(|i| format!("{i}{class}")).collect();
    project.write("classes.txt", names.join("\n"));
    let build = "build lenet.onnx --data fashion-1000.npz --divide 255 --limit 60 --criteria snpc \
                 --class-names classes.txt -o g.npcov";
    assert_eq!(project.run(build).code, Some(0));
    let mut cover =
        project.command("cover g.npcov --data fashion-1000.npz --limit 20 -o s.npcov --name");
    cover.arg("suite | \u{1b}]0;x\u{7} ```\n<script>");
    assert_eq!(project.outcome(cover).code, Some(0));
    for command in [
        "report s.npcov --all",
        "report s.npcov --format json",
        "report s.npcov --format markdown",
        "report s.npcov --format junit",
        "check s.npcov --fail-on-thin",
        "check s.npcov --fail-on-thin --format junit",
        "check s.npcov --fail-on-drop 0 --against s.npcov",
        "gaps g.npcov s.npcov",
        "inspect g.npcov",
        "explain g.npcov --data fashion-1000.npz --index 0 --no-heatmap",
    ] {
        let outcome = project.run(command);
        let shown = [outcome.stdout, outcome.stderr].concat();
        let named = ["<c>", "&lt;c&gt;", "script"];
        assert!(
            named.iter().any(|name| shown.contains(name)),
            "{command}: {shown}"
        );
        let obeyed = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
        assert!(!shown.chars().any(obeyed), "{command}: {shown}");
        // Whoever reads line by line, as CI does, takes no name for one of its own.
        let alone = |line: &str| line.starts_with("<script>");
        let fenced = command.contains("markdown");
        assert!(fenced || !shown.lines().any(alone), "{command}: {shown}");
        // What is fenced is text; no name opens or closes a fence.
        let mut fenced = false;
        for line in shown.lines() {
            let is_fence = command.contains("markdown") && line.starts_with("````");
            fenced ^= is_fence;
            let is_markup = command.contains("markdown") || command.contains("junit");
            let tags = line.contains("<c>") || line.contains("<script>");
            assert!(fenced || !is_markup || !tags, "{command}: {line}");
        }
        assert!(!fenced, "{command}: {shown}");
    }
}

/// A file with a line end in its name is shown on the line that names it.
#[test]
fn names_of_files_begin_no_line() {
    let project = Project::new();
    let odd = |name: &str| format!("\u{1b}[2J\n::error::{name}");
    for name in ["mlp-matlab.onnx", "fashion-1000.npz"] {
        let bytes = std::fs::read(project.path(name)).unwrap();
        project.write(&odd(name), bytes);
    }
    let data = "--data DATA --divide 255";
    let commands = [
        "inspect MODEL".to_owned(),
        format!("predict MODEL {data} --limit 9 -o PREDICTED"),
        format!("explain MODEL {data} --limit 9 --output EXPLAINED"),
        format!("explain MODEL {data} --index 0 --heatmap PICTURE"),
        "compile MODEL --program trace -o COMPILED".to_owned(),
        format!("attack MODEL {data} --limit 9 --steps 1 -o ATTACKED"),
        format!("tune MODEL {data} --sample 20 --clusters 1 --write TUNED"),
        format!("mutate MODEL {data} --limit 9 --operators gf --mutants 1 --ratio 0.01 -o KILLED"),
        format!("lab rq1 MODEL {data} --quick -o LAB"),
        format!("build MODEL {data} --limit 60 --clusters 1 -o GRAPH"),
        "inspect GRAPH".to_owned(),
        "export GRAPH -o EXPORTED".to_owned(),
        "cover GRAPH --data DATA --limit 20 --name DATA -o STATE".to_owned(),
        "report STATE --all".to_owned(),
        "gaps GRAPH STATE --pool DATA -o ADDED".to_owned(),
        "select GRAPH --data DATA --by random --count 3 -o SELECTED".to_owned(),
        "minimize GRAPH --data DATA --limit 20 -o SMALLER".to_owned(),
        "merge STATE -o MERGED".to_owned(),
    ];
    let wrong = ["DATA", "inspect MODEL DATA", "predict MODEL --limit DATA"].map(str::to_owned);
    let codes = [(0, &commands[..]), (2, &wrong[..])];
    let all = codes.map(|(code, list)| list.iter().map(move |command| (code, command)));
    for (code, command) in all.into_iter().flatten() {
        let mut run = project.command("");
        run.args(command.split(' ').map(|word| match word {
            "MODEL" => odd("mlp-matlab.onnx"),
            "DATA" => odd("fashion-1000.npz"),
            word if word.chars().all(|c| c.is_ascii_uppercase()) => odd(word),
            word => word.to_owned(),
        }));
        let outcome = project.outcome(run);
        assert_eq!(outcome.code, Some(code), "{command}: {}", outcome.stderr);
        let shown = [outcome.stdout, outcome.stderr].concat();
        let obeyed = |line: &str| line.starts_with("::") || line.contains('\u{1b}');
        assert!(!shown.lines().any(obeyed), "{command}: {shown}");
    }
}

/// Half of the weights are denormal, which is as if they were not there, on any number of threads.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[test]
fn denormal_weights_are_zeros() {
    let project = Project::new();
    let weights = std::fs::read(project.path("mlp-external.bin")).unwrap();
    let with = |other: f32| -> Vec<u8> {
        let numbers = weights.chunks_exact(4).enumerate();
        let halved = numbers.map(|(i, bytes)| match i % 2 {
            0 => other.to_le_bytes(),
            _ => bytes.try_into().unwrap(),
        });
        halved.flatten().collect()
    };
    let run = |command: &str, output: &str| {
        let outcome = project.run(command);
        assert_eq!(outcome.code, Some(0), "{command}: {}", outcome.stderr);
        std::fs::read(project.path(output)).unwrap()
    };
    let mlp = "mlp-external.onnx --data fashion-1000.npz --divide 255";
    project.write("mlp-external.bin", with(0.0));
    let zeros = run(&format!("predict {mlp} -o p.npz"), "p.npz");
    project.write("mlp-external.bin", with(f32::MIN_POSITIVE / 8.0));
    let mut graphs = Vec::new();
    for threads in [1, 2, 5] {
        let predict = format!("predict {mlp} --threads {threads} -o p.npz");
        assert!(run(&predict, "p.npz") == zeros, "{threads} threads");
        let build = format!("build {mlp} --threads {threads} --clusters 1 -o g.npcov");
        graphs.push(run(&build, "g.npcov"));
    }
    assert!(graphs.iter().all(|graph| *graph == graphs[0]));
}

#[test]
fn a_closed_or_full_standard_output_is_an_error() {
    let project = Project::new();
    for (shell, code) in [
        ("\"$@\" >&-", 2),
        ("\"$@\" >/dev/full", 2),
        ("\"$@\" >/dev/null", 0),
        // A reader that has seen enough.
        ("{ \"$@\"; echo $? >code; } | true; exit $(cat code)", 0),
    ] {
        if shell.contains("full") && !Path::new("/dev/full").exists() {
            continue;
        }
        let plain = project.command("inspect lenet.onnx");
        let mut command = Command::new("sh");
        command
            .args(["-c", shell, "sh"])
            .arg(plain.get_program())
            .args(plain.get_args())
            .current_dir(project.path(""))
            .env_clear()
            .env("PATH", "/bin:/usr/bin");
        let outcome = project.outcome(command);
        assert_eq!(outcome.code, Some(code), "{shell}: {}", outcome.stderr);
        assert_eq!(
            outcome.stderr.contains("standard output"),
            code == 2,
            "{}",
            outcome.stderr
        );
    }
}

/// Paths need not be UTF-8, neither of inputs nor of outputs.
#[cfg(target_os = "linux")]
#[test]
fn paths_may_be_any_bytes() {
    let project = Project::new();
    let odd = |name: &str| {
        let bytes = [b"\xff\xfe-", name.as_bytes()].concat();
        project.path("").join(OsStr::from_bytes(&bytes))
    };
    for name in ["lenet.onnx", "fashion-1000.npz"] {
        std::fs::copy(project.path(name), odd(name)).unwrap();
    }
    let run = |arguments: &[&OsStr]| {
        let mut command = project.command("");
        let status = command.args(arguments).output().unwrap();
        let told = String::from_utf8_lossy(&status.stderr).into_owned();
        assert_eq!(status.status.code(), Some(0), "{arguments:?}: {told}");
    };
    let (model, data) = (odd("lenet.onnx"), odd("fashion-1000.npz:x,y"));
    let (graph, state, inputs) = (odd("g.npcov"), odd("s.npcov"), odd("inputs.csv"));
    let selected = odd("selected.npz");
    let s = OsStr::new;
    let paths = [&model, &data, &graph, &state, &inputs, &selected].map(|path| path.as_os_str());
    let [model, data, graph, state, inputs, selected] = paths;
    run(&[s("predict"), model, s("--data"), data, s("-o"), selected]);
    run(&[
        s("build"),
        model,
        s("--data"),
        data,
        s("--limit"),
        s("60"),
        s("-o"),
        graph,
    ]);
    let cover = [
        s("cover"),
        graph,
        s("--data"),
        data,
        s("--limit"),
        s("20"),
        s("-o"),
        state,
    ];
    run(&[&cover[..], &[s("--inputs"), inputs]].concat());
    for file in [graph, state, inputs, selected] {
        assert!(Path::new(file).exists(), "{file:?}");
    }
    run(&[s("report"), state]);
}

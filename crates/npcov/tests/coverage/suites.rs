//! What suites cover together, in parts, in memory and as they grow.

use npcov::Error;
use npcov::artefact::MeasuredSuite;
use npcov::coverage::{CoverOptions, Coverage, Measurement};
use npcov::criteria::SumsPart;
use npcov::criteria::exact::fixed;
use npcov::program::{Output, Reduction, Side, Tap};
use npcov::run::PathRows;

use crate::case::{ANPC, BUCKETS, SNPC, by, small};

#[test]
fn a_suite_covers_what_its_parts_cover() {
    let (case, graph) = small();
    let measurement = graph.measurement(&CoverOptions::default()).unwrap();
    let all = case.cover(&measurement, 100..700);
    for middle in [101, 199, 450, 612, 699] {
        let (first, second) = (
            case.cover(&measurement, 100..middle),
            case.cover(&measurement, middle..700),
        );
        for place in [SNPC, ANPC] {
            let covered = |suite: &MeasuredSuite| suite.states[place].get(BUCKETS).unwrap().count();
            let parts = [covered(&first), covered(&second)];
            assert!(covered(&all) >= parts[0].max(parts[1]));
            assert!(covered(&all) <= parts[0] + parts[1]);
        }
        let pairs = first.states.iter().zip(&second.states).zip(&all.states);
        for ((first, second), all) in pairs {
            let mut both = first.clone();
            both.append(second).unwrap();
            assert_eq!(&both, all);
        }
        assert_eq!([first.inputs, second.inputs].concat(), all.inputs);
    }
}

#[test]
fn measuring_in_memory_gives_what_files_give() {
    let (case, graph) = small();
    // All criteria, also one for which the order of inputs matters, on more than one shard.
    // Those of recurrent layers have nothing to look at here.
    let names = npcov::criteria::names().into_iter();
    let names: Vec<&str> = names
        .filter(|name| !["bsc", "wsc", "sbc", "btc", "wtc"].contains(name))
        .collect();
    let measurement = by(&graph, &names);
    let expected = case.cover(&measurement, 100..700);
    let in_memory = |measurement: &Measurement<'_>, name: &str, range, threads| {
        measurement.cover(name, &case.range(range, threads), &mut ())
    };
    for threads in [1, 3] {
        let coverage = in_memory(&measurement, "suite", 100..700, threads).unwrap();
        assert!(coverage.state().suites()[0] == expected);
    }
    assert!(in_memory(&measurement, "suite", 5..5, 1).is_err());
    assert!(in_memory(&measurement, "suite", 0..1001, 1).is_err());

    // Parts that are united are the whole.
    let measurement = graph.measurement(&CoverOptions::default()).unwrap();
    let expected = case.cover(&measurement, 100..700);
    let mut parts = Coverage::new(measurement.state());
    for (name, range) in [("c", 300..700), ("a", 100..250), ("b", 250..300)] {
        let part = in_memory(&measurement, name, range, 2).unwrap();
        parts.merge(part).unwrap();
    }
    let united = parts.united(&["a", "b", "c"], "suite").unwrap();
    assert!(united.state().suites()[0] == expected);
    assert!(parts.united(&["a", "d"], "suite").is_err());
}

/// Units are summed up while they are computed: as if all had been kept.
#[test]
fn sums_of_units_are_those_of_their_numbers() {
    let (case, graph) = small();
    let measurement = by(&graph, &["nc"]);
    let range = 100..633;
    let units = |layer| Tap {
        layer,
        side: Side::After,
        reduction: Reduction::Units,
    };
    let taps: Vec<Tap> = (0..case.network.layers().len()).map(units).collect();
    let tracer = case.network.tracer(&taps).unwrap();
    // The taps in order, then the logits. In layers of single units these are the activations.
    let wanted = taps.iter().map(|&tap| Output::Tap(tap));
    let wanted: Vec<usize> = wanted
        .chain([Output::Logits])
        .map(|output| tracer.outputs().iter().position(|&o| o == output).unwrap())
        .collect();
    let mut sums = vec![0; wanted.iter().map(|&i| tracer.output_lens()[i]).sum()];
    let run = tracer.run(
        &case.loader,
        range.clone(),
        2,
        |batch| -> Result<(), Error> {
            let mut first = 0;
            for &i in &wanted {
                let len = tracer.output_lens()[i];
                for row in batch.outputs[i].chunks_exact(len) {
                    for (sum, &x) in sums[first..].iter_mut().zip(row) {
                        *sum += fixed(f64::from(x.max(0.0)));
                    }
                }
                first += len;
            }
            Ok(())
        },
    );
    run.unwrap();
    assert!(
        case.cover(&measurement, range).states[0]
            .get(SumsPart("sums"))
            .unwrap()
            == sums
    );
}

#[test]
fn a_longer_suite_covers_no_less() {
    let (case, graph) = small();
    let measurement = graph.measurement(&CoverOptions::default()).unwrap();
    let mut before = [0, 0];
    for end in [61, 70, 100, 200, 500, 1000] {
        let suite = case.cover(&measurement, 60..end);
        let covered = [SNPC, ANPC].map(|i| suite.states[i].get(BUCKETS).unwrap().count());
        assert!(
            covered[0] >= before[0] && covered[1] >= before[1],
            "{end}: {covered:?}"
        );
        before = covered;
    }
    assert!(before[0] > 50 && before[1] > 50, "{before:?}");
}

#[test]
fn an_input_that_the_graph_was_learnt_from_has_distance_zero_to_itself() {
    let (case, graph) = small();
    let measurement = graph.measurement(&CoverOptions::default()).unwrap();
    for index in [0, 17, 59] {
        let mut found = None;
        let extractor = graph.extractor().unwrap();
        let observe = |batch: &PathRows| -> Result<(), Error> {
            found = Some(measurement.observe(batch, 0)?);
            Ok(())
        };
        let range = index..index + 1;
        extractor.run(&case.loader, range, 1, observe).unwrap();
        let observation = found.unwrap();
        let own = graph.file().graph().cluster_of(index as u32) as usize;
        let view = observation.clusters.iter().find(|view| view.cluster == own);
        let view = view.unwrap();
        // The nearest member has the same path; it may be an earlier one.
        let nearest = view.neighbour.unwrap();
        let path = |input: u32| {
            let file = graph.file();
            npcov::paths::gather(file, file.graph().layout(), &[input]).unwrap()
        };
        assert_eq!(path(nearest), path(index as u32));
        assert!(nearest as usize <= index);
        if nearest as usize == index {
            assert!(
                view.distances
                    .iter()
                    .all(|&(d, bucket)| d == 0.0 && bucket.is_none())
            );
        }
    }
}

//! Parameters that every class has for itself, beside one choice for all.
//!
//! Whoever chooses more finds more by chance. So parameters are chosen on one half of a sample, and what they are
//! worth is said of the other half, whose paths are clustered anew.

use npcov_data::Loader;
use npcov_run::{Progress, RunError};
use serde::{Deserialize, Serialize};

use super::{PathParameters, TuneOptions, choose, choose_clusters};
use crate::{GridPoint, MaskingStudy, random};

/// Two random halves of a sample.
pub struct Halves<'a> {
    data: &'a Loader<'a>,
    options: TuneOptions,
    /// Parameters are chosen on this half.
    choosing: MaskingStudy<'a>,
    /// And judged on this one.
    judging: MaskingStudy<'a>,
}

/// What masking does with the parameters of each class and with those of all, for the inputs of one class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClassChoice {
    /// The class.
    pub class: usize,
    /// Inputs that the class chose by.
    pub chosen_on: usize,
    /// Inputs that were masked to judge.
    pub judged_on: usize,
    /// With the parameters of all classes.
    pub one_for_all: ChosenPoint,
    /// With alpha and beta of all classes, and a number of clusters of its own.
    pub own_clusters: ChosenPoint,
    /// With parameters of its own.
    pub own: ChosenPoint,
}

/// What masking does to the abstract paths of chosen parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChosenPoint {
    /// The share of relevance that critical neurons have together.
    pub alpha: f64,
    /// What masking does.
    #[serde(flatten)]
    pub found: GridPoint,
}

impl<'a> Halves<'a> {
    /// Halves the inputs that a study explained. Its first alphas must be those of `options`, in ascending order; the
    /// sample of `options` is not looked at.
    pub fn of(
        study: &MaskingStudy<'a>,
        data: &'a Loader<'a>,
        options: &TuneOptions,
    ) -> Result<Halves<'a>, RunError> {
        let inputs = study.sample().len();
        let choosing: Vec<u32> = random::half(inputs, options.seed)
            .into_iter()
            .map(|i| i as u32)
            .collect();
        let others = (0..inputs as u32).filter(|i| choosing.binary_search(i).is_err());
        Ok(Halves {
            data,
            options: options.checked()?,
            judging: study.part(&others.collect::<Vec<_>>()),
            choosing: study.part(&choosing),
        })
    }

    /// How many inputs count in the half that parameters are chosen on, and in the other one.
    pub fn counted(&self) -> [usize; 2] {
        [&self.choosing, &self.judging].map(|half| half.counted().len())
    }

    /// One choice for all classes: that of [`tune`](super::tune).
    pub fn choose(&self, progress: &mut dyn Progress) -> Result<PathParameters, RunError> {
        Ok(choose(&self.choosing, self.data, &self.options, progress)?.chosen)
    }

    /// Lets a class choose for itself, by the same rule, and judges that beside what was chosen for `all`. `None`
    /// where a half has no input of the class that counts.
    pub fn choose_for(
        &self,
        class: usize,
        all: &PathParameters,
        progress: &mut dyn Progress,
    ) -> Result<Option<ClassChoice>, RunError> {
        match self.compare(class, all, progress) {
            Ok(choice) => Ok(Some(choice)),
            Err(RunError::NoInputs(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn compare(
        &self,
        class: usize,
        all: &PathParameters,
        progress: &mut dyn Progress,
    ) -> Result<ClassChoice, RunError> {
        let (choosing, judging) = (
            of_class(&self.choosing, class),
            of_class(&self.judging, class),
        );
        let (chosen_on, judged_on) = (choosing.counted().len(), judging.counted().len());
        if chosen_on == 0 || judged_on == 0 {
            return Err(RunError::NoInputs(self.data.name().to_owned()));
        }
        let (data, options) = (self.data, &self.options);
        let betas = &[all.beta];
        let alpha = self.position(all.alpha);
        let (grid, _, best) = choose_clusters(&choosing, data, options, alpha, betas, progress)?;
        let own_clusters = PathParameters {
            clusters: grid[best.point].clusters,
            ..*all
        };
        let own = choose(&choosing, data, options, progress)?.chosen;
        let mut judge = |parameters: &PathParameters| -> Result<ChosenPoint, RunError> {
            let alpha = self.position(parameters.alpha);
            let clustered = judging.cluster(alpha, parameters.clusters);
            Ok(ChosenPoint {
                alpha: parameters.alpha,
                found: judging.abstract_paths(&clustered, parameters.beta, progress)?,
            })
        };
        Ok(ClassChoice {
            class,
            chosen_on,
            judged_on,
            one_for_all: judge(all)?,
            own_clusters: judge(&own_clusters)?,
            own: judge(&own)?,
        })
    }

    /// Where an alpha stands among those that were tried.
    fn position(&self, alpha: f64) -> usize {
        let mut alphas = self.options.alphas.iter();
        alphas.position(|&other| other == alpha).unwrap_or(0)
    }
}

/// The inputs that are taken for a class.
fn of_class<'a>(study: &MaskingStudy<'a>, class: usize) -> MaskingStudy<'a> {
    let is_of_class = |&i: &u32| study.predictions()[i as usize] as usize == class;
    let inputs = 0..study.sample().len() as u32;
    study.part(&inputs.filter(is_of_class).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use npcov_data::Preprocessing;
    use npcov_run::{ModelOptions, Network};

    use super::*;
    use crate::answers::Answers;
    use crate::study::Subject;

    fn options(alphas: &[f64], clusters: &[usize], betas: &[f64]) -> TuneOptions {
        TuneOptions {
            sample: Some(160),
            alphas: alphas.to_vec(),
            clusters: clusters.to_vec(),
            betas: betas.to_vec(),
            restarts: 2,
            ..TuneOptions::default()
        }
    }

    fn with_halves(options: &TuneOptions, check: impl FnOnce(&Network, &Loader<'_>, &Halves<'_>)) {
        let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures");
        let network = format!("{fixtures}/lenet.onnx");
        let network = Network::open(network, &ModelOptions::default()).unwrap();
        let data = npcov_data::open(format!("{fixtures}/fashion-1000.npz")).unwrap();
        let scale = Preprocessing {
            divide: Some(255.0),
            ..Preprocessing::default()
        };
        let data = Loader::new(data, network.sample_shape(), &scale).unwrap();
        let masking = options.masking();
        let study = MaskingStudy::new(&network, &data, &masking, 2, &mut ()).unwrap();
        let halves = Halves::of(&study, &data, options).unwrap();
        let mut rows = [halves.choosing.sample(), halves.judging.sample()].concat();
        rows.sort_unstable();
        assert_eq!(rows, study.sample(), "every input is in one half");
        check(&network, &data, &halves);
    }

    /// What a class chooses and what that is worth, from studies that explain its inputs anew and know no others.
    #[test]
    fn a_class_chooses_what_a_study_of_its_inputs_alone_recommends() {
        let options = options(&[0.7, 0.9], &[1, 2], &[0.6, 0.8]);
        with_halves(&options, |network, data, halves| {
            let all = halves.choose(&mut ()).unwrap();
            let masking = options.masking();
            let mut differ = 0;
            for class in 0..10 {
                let found = halves.choose_for(class, &all, &mut ()).unwrap().unwrap();
                let alone = |half: &MaskingStudy<'_>| {
                    let of_class = |&place: &usize| half.predictions()[place] as usize == class;
                    let places = (0..half.sample().len()).filter(of_class);
                    let rows: Vec<usize> = places.map(|place| half.sample()[place]).collect();
                    let mut subject = Subject::new(network, data, &masking).unwrap();
                    let inputs = 0..rows.len();
                    subject.sample = rows;
                    let sets = subject.explain(inputs.clone(), 1, &mut ()).unwrap();
                    subject.study(inputs, sets, Answers::default(), 1)
                };
                let (choosing, judging) = (alone(&halves.choosing), alone(&halves.judging));
                let own = choose(&choosing, data, &options, &mut ()).unwrap().chosen;
                let point = |found: &ChosenPoint| PathParameters {
                    alpha: found.alpha,
                    clusters: found.found.clusters,
                    beta: found.found.beta,
                };
                assert_eq!(point(&found.own), own);
                assert_eq!(point(&found.one_for_all), all);
                let own_clusters = point(&found.own_clusters);
                assert_eq!(
                    (own_clusters.alpha, own_clusters.beta),
                    (all.alpha, all.beta)
                );
                let clustered = judging.cluster(halves.position(own.alpha), own.clusters);
                let judged = judging
                    .abstract_paths(&clustered, own.beta, &mut ())
                    .unwrap();
                assert_eq!(found.own.found, judged);
                assert_eq!(found.chosen_on, choosing.counted().len());
                assert_eq!(found.judged_on, judging.counted().len());
                differ += usize::from(own != all);
            }
            assert!(differ > 0, "some class chooses otherwise");
        });
    }

    #[test]
    fn where_there_is_no_choice_all_are_the_same() {
        with_halves(&options(&[0.8], &[2], &[0.7]), |_, _, halves| {
            let all = halves.choose(&mut ()).unwrap();
            for class in 0..10 {
                let found = halves.choose_for(class, &all, &mut ()).unwrap().unwrap();
                assert_eq!(found.own, found.one_for_all);
                assert_eq!(found.own_clusters, found.one_for_all);
            }
            // Nothing is taken for a class that the model has not.
            assert_eq!(halves.choose_for(10, &all, &mut ()).unwrap(), None);
        });
    }
}

//! The sets of a study in a file, so that a study that was cut off need not explain its sample again.

use npcov_data::DataError;
use npcov_data::safetensors::{SafetensorsReader, SafetensorsWriter, TensorSpec};
use npcov_paths::{BitRows, PathLayout};

use super::sets::Sets;
use super::study::Keep;
use npcov_run::RunError;

const PREDICTIONS: &str = "prediction";

impl Keep {
    /// What a file says of itself.
    fn label(&self) -> String {
        format!("npcov {}: {}", env!("CARGO_PKG_VERSION"), self.plan)
    }
}

impl Sets {
    /// All rows of bits, with names.
    fn named(&self) -> impl Iterator<Item = (String, &BitRows)> {
        let kinds = [
            ("path", &self.paths),
            ("activated", &self.activated),
            ("band", &self.bands),
        ];
        kinds.into_iter().flat_map(|(kind, list)| {
            let rows = list.iter().enumerate();
            rows.map(move |(i, rows)| (format!("{kind}.{i}"), rows))
        })
    }

    /// The form of all that is written.
    pub(super) fn specs(&self) -> Vec<TensorSpec> {
        let inputs = self.predictions.len();
        let mut specs = vec![TensorSpec::of::<u32>(PREDICTIONS, &[inputs])];
        for (name, rows) in self.named() {
            specs.push(TensorSpec::of::<u64>(name, &[rows.len(), rows.width()]));
        }
        specs
    }

    /// Adds them to a file.
    pub(super) fn append_to(&self, writer: &mut SafetensorsWriter) -> Result<(), DataError> {
        writer.append(PREDICTIONS, &self.predictions)?;
        for (name, rows) in self.named() {
            for row in rows.rows() {
                writer.append(&name, row)?;
            }
        }
        Ok(())
    }

    /// Writes them, whole or not at all.
    pub(super) fn write(&self, keep: &Keep) -> Result<(), RunError> {
        let mut writer = SafetensorsWriter::create(&keep.file, &keep.label(), &self.specs())?;
        self.append_to(&mut writer)?;
        Ok(writer.finish()?)
    }

    /// Fills empty sets with those of a file. `None` where there is none, or it is damaged, or of
    /// another plan or form.
    pub(super) fn read(mut self, keep: &Keep, inputs: usize, layout: &PathLayout) -> Option<Sets> {
        let reader = SafetensorsReader::open(&keep.file).ok()?;
        if !reader.is_sealed() || reader.metadata() != Some(&keep.label()) {
            return None;
        }
        self.fill(&reader, inputs, layout)?;
        Some(self)
    }

    /// Fills empty sets of inputs that follow those there are with so many of a file. `None` where it is
    /// damaged or of another form, or has neurons that the layers have not.
    pub(super) fn fill(
        &mut self,
        reader: &SafetensorsReader,
        inputs: usize,
        layout: &PathLayout,
    ) -> Option<()> {
        let start = self.predictions.len();
        let predictions: Vec<u32> = reader.read(PREDICTIONS).ok()?;
        if predictions.len() != inputs {
            return None;
        }
        self.predictions.extend(predictions);
        let kinds = [
            ("path", &mut self.paths),
            ("activated", &mut self.activated),
            ("band", &mut self.bands),
        ];
        for (kind, list) in kinds {
            for (i, rows) in list.iter_mut().enumerate() {
                let name = format!("{kind}.{i}");
                let form = TensorSpec::of::<u64>(name.as_str(), &[inputs, rows.width()]);
                if reader.tensor(&name) != Some(&form) || start + inputs > rows.len() {
                    return None;
                }
                for row in 0..inputs {
                    let place = rows.row_mut(start + row);
                    reader.read_row_into(&name, row, place).ok()?;
                    if !layout.holds(place) {
                        return None;
                    }
                }
            }
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn empty(alphas: usize, bands: usize) -> Sets {
        Sets {
            predictions: Vec::new(),
            paths: vec![BitRows::zeros(2, 3); alphas],
            activated: vec![BitRows::zeros(2, 3); alphas],
            bands: vec![BitRows::zeros(2, 3); bands],
        }
    }

    #[test]
    fn sets_come_back_and_others_do_not() {
        let folder = tempfile::tempdir().unwrap();
        let keep = Keep {
            file: folder.path().join("sets.safetensors"),
            plan: "a".to_owned(),
        };
        let layout = PathLayout::new(vec![64, 20]);
        assert!(empty(1, 1).read(&keep, 3, &layout).is_none());
        let mut sets = empty(2, 1);
        sets.predictions = vec![4, 5, 6];
        for (i, rows) in [0, 1].iter().zip(&mut sets.paths) {
            rows.row_mut(2)[1] = 7 + i;
        }
        sets.activated[1].row_mut(0)[0] = 1;
        sets.bands[0].row_mut(1)[0] = u64::MAX;
        sets.write(&keep).unwrap();
        let found = empty(2, 1).read(&keep, 3, &layout).unwrap();
        assert_eq!(found.predictions, sets.predictions);
        assert!(found.named().eq(sets.named()));
        assert!(empty(2, 2).read(&keep, 3, &layout).is_none());
        assert!(empty(2, 1).read(&keep, 4, &layout).is_none());
        let other = Keep {
            plan: "b".to_owned(),
            ..keep.clone()
        };
        assert!(empty(2, 1).read(&other, 3, &layout).is_none());
        let mut bytes = std::fs::read(&keep.file).unwrap();
        for place in 0..bytes.len() {
            bytes[place] ^= 1;
            std::fs::write(&keep.file, &bytes).unwrap();
            assert!(
                empty(2, 1).read(&keep, 3, &layout).is_none(),
                "byte {place}"
            );
            bytes[place] ^= 1;
        }
        // A neuron that no layer has, in a file whose checksums fit.
        sets.paths[1].row_mut(1)[1] = 1 << 20;
        sets.write(&keep).unwrap();
        assert!(empty(2, 1).read(&keep, 3, &layout).is_none());
    }
}

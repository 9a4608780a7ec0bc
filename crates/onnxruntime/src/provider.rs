//! What ONNX Runtime computes on.

use std::fmt;
use std::str::FromStr;

use ort::ep::{self, ExecutionProviderDispatch};

/// What ONNX Runtime computes on, by the names that its users know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Provider {
    /// The CPU, which every library has.
    #[default]
    Cpu,
    /// GPUs of NVIDIA.
    Cuda,
    /// The same, with kernels made for the model.
    TensorRt,
    /// GPUs of AMD.
    Rocm,
    /// The same, by way of MIGraphX.
    MiGraphX,
    /// GPUs on Windows.
    DirectMl,
    /// Macs.
    CoreMl,
    /// Intel's CPUs and GPUs.
    OpenVino,
}

impl Provider {
    /// All of them.
    pub const ALL: [Provider; 8] = [
        Provider::Cpu,
        Provider::Cuda,
        Provider::TensorRt,
        Provider::Rocm,
        Provider::MiGraphX,
        Provider::DirectMl,
        Provider::CoreMl,
        Provider::OpenVino,
    ];

    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Provider::Cpu => "cpu",
            Provider::Cuda => "cuda",
            Provider::TensorRt => "tensorrt",
            Provider::Rocm => "rocm",
            Provider::MiGraphX => "migraphx",
            Provider::DirectMl => "directml",
            Provider::CoreMl => "coreml",
            Provider::OpenVino => "openvino",
        }
    }

    /// For a session, which fails where the library or the machine lacks it; `None` for the CPU, which is always
    /// there.
    pub(crate) fn dispatch(self) -> Option<ExecutionProviderDispatch> {
        let provider = match self {
            Provider::Cpu => return None,
            Provider::Cuda => ep::CUDA::default().build(),
            Provider::TensorRt => ep::TensorRT::default().build(),
            Provider::Rocm => ep::ROCm::default().build(),
            Provider::MiGraphX => ep::MIGraphX::default().build(),
            Provider::DirectMl => ep::DirectML::default().build(),
            Provider::CoreMl => ep::CoreML::default().build(),
            Provider::OpenVino => ep::OpenVINO::default().build(),
        };
        Some(provider.error_on_failure())
    }
}

impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Provider {
    type Err = String;

    fn from_str(name: &str) -> Result<Provider, String> {
        let mut all = Provider::ALL.into_iter();
        let found = all.find(|provider| provider.name() == name.to_ascii_lowercase());
        found.ok_or_else(|| {
            let names = Provider::ALL.map(|provider| format!("`{provider}`"));
            format!("`{name}` is no provider; there are {}", names.join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn providers_are_known_by_their_names() {
        for provider in Provider::ALL {
            assert_eq!(provider.name().parse(), Ok(provider));
        }
        assert_eq!("CUDA".parse(), Ok(Provider::Cuda));
        assert!("gpu".parse::<Provider>().unwrap_err().contains("`cuda`"));
    }
}

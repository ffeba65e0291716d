package addon

import (
	"cmp"
	_ "embed"
	"net/url"
	"path"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// weightsScript fetches a file of weights and checks it.
//
//go:embed weights.sh
var weightsScript string

// llamaSource is where llama.cpp has its weights from. It downloads a repository's newest commit only, and checks
// its size (common/hf-cache.cpp and common/download.cpp); what is pinned is fetched before.
func (m modelServer) llamaSource() []string {
	switch {
	case m.Pinned():
		return []string{"--model", m.weightsFile()}
	case m.File != "":
		return []string{"--hf-repo", m.Source, "--hf-file", m.File}
	case m.Quantization != "":
		return []string{"--hf-repo", m.Source + ":" + m.Quantization}
	}
	return []string{"--hf-repo", m.Source}
}

// weightsFile is the path of a pinned model's file. Its folder says which content it has, so a file that is there
// needs no check.
func (m modelServer) weightsFile() string {
	return path.Join(weightsPath, "files", cmp.Or(m.SHA256, m.Revision), path.Join("/", m.File))
}

// fetch is the container that fetches a pinned model's file, once for all replicas: the first to lock the volume does
// it, and the others wait. The engine's image has what it takes, curl for its health check (.devops/cuda.Dockerfile),
// the rest as any Ubuntu.
func (m modelServer) fetch() corev1.Container {
	from := cmp.Or(strings.TrimSuffix(m.Mirror, "/"), "https://huggingface.co") +
		"/" + path.Join(m.Source, "resolve", url.PathEscape(cmp.Or(m.Revision, "main")), m.File)
	return corev1.Container{
		Name: "weights", Image: cmp.Or(m.Image, llamaImage),
		Command:      []string{"flock", weightsPath + "/.lock", "bash", "-c", weightsScript},
		Args:         []string{"models." + m.Name, from, m.weightsFile(), m.SHA256},
		Env:          append([]corev1.EnvVar{{Name: "NVIDIA_VISIBLE_DEVICES", Value: "void"}}, m.hubToken()...), // its image asks for all cards
		VolumeMounts: []corev1.VolumeMount{{Name: "weights", MountPath: weightsPath}},
		// So that kubectl describe and doctor show why.
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		SecurityContext:          noCapabilities(),
	}
}

func (m modelServer) hubToken() []corev1.EnvVar {
	if m.Token.IsZero() {
		return nil
	}
	return []corev1.EnvVar{secretVariable("HF_TOKEN", m.tokenSecret(), tokenKey)}
}

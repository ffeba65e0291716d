package check

import (
	_ "embed"
	"fmt"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cps-gpu/homelab/nvidia"
)

//go:embed keep.sh
var reloadScript string

const scripts = "gpu-check-scripts" // the ConfigMap, the same for every run and node

// ReloadTime is how long the Job of [ReloadObjects] holds its GPU.
const ReloadTime = 20 * time.Second

// ReloadObjects returns a Job that holds one GPU of a node for ReloadTime and notices if it loses it.
// While it runs, the caller has systemd reload its units on the node ("systemctl daemon-reload").
// Its last words are for [ParseReload].
func ReloadObjects(node string, o VerifyOptions) []runtime.Object {
	objects := job(node, "keep", 1, o)
	pod := &objects[1].(*batchv1.Job).Spec.Template.Spec
	pod.Containers[0].Command = []string{"sh", "/check/keep.sh", fmt.Sprint(int(ReloadTime / time.Second))}
	return objects
}

// OverRequestObjects returns a Job that asks for more GPUs than a node offers. It must stay pending; one that
// starts proves that the node's limits are not enforced.
func OverRequestObjects(node string, offers int, o VerifyOptions) []runtime.Object {
	objects := job(node, "refuse", offers+1, o)
	objects[1].(*batchv1.Job).Spec.Template.Spec.Containers[0].Command = []string{"nvidia-smi", "-L"}
	return objects
}

// Name returns the name of the Job of a check on a node.
func Name(node, check, runID string) string { return VerifyName(check+"-"+node, runID) }

// job is the verification's own Job, under another name and with our scripts.
func job(node, check string, gpus int, o VerifyOptions) []runtime.Object {
	objects := VerifyObjects(node, gpus, o)
	j := objects[1].(*batchv1.Job)
	j.Name = Name(node, check, o.RunID)
	j.Labels = map[string]string{"app.kubernetes.io/name": "gpu-check"}
	j.Spec.Template.Labels = j.Labels
	j.Spec.Template.Spec.Containers[0].Resources.Limits = corev1.ResourceList{nvidia.Resource: *resource.NewQuantity(int64(gpus), resource.DecimalSI)}
	j.Spec.Template.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "scripts", MountPath: "/check", ReadOnly: true}}
	j.Spec.Template.Spec.Volumes = []corev1.Volume{{Name: "scripts", VolumeSource: corev1.VolumeSource{
		ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: scripts}}}}}
	return []runtime.Object{&corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Name: scripts, Namespace: j.Namespace, Labels: map[string]string{"app.kubernetes.io/name": "gpu-check"}},
		Data:       map[string]string{"keep.sh": reloadScript},
	}, j}
}

// ParseReload reads the last words of the Job of [ReloadObjects].
func ParseReload(node, words string) Check {
	c := Check{Node: node, GPU: WholeNode, Name: Reload}
	kind, detail, _ := strings.Cut(strings.TrimSpace(words), "|")
	switch kind {
	case "kept":
		c.Verdict, c.Detail = Passed, "a container keeps its GPU when systemd reloads its units"
	case "lost":
		c.Verdict, c.Detail = Failed, "a container loses its GPU when systemd reloads its units, "+detail+": the container runtime must inject devices by CDI (nvidia-container-toolkit 1.18 or newer)"
	case "failed":
		c.Verdict, c.Detail = Failed, "nvidia-smi fails in a container: "+detail
	default:
		c.Verdict, c.Detail = Failed, fmt.Sprintf("the job left no result, but %q", words)
	}
	return c
}

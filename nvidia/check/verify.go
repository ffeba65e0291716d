package check

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cps-gpu/homelab/nvidia"
)

// VerifyImage holds NVIDIA's vectorAdd sample, a shell, and CUDA's libraries.
const VerifyImage = "nvcr.io/nvidia/k8s/cuda-sample:vectoradd-cuda12.5.0-ubuntu22.04"

// VerifyOptions configure where and how GPUs are verified.
type VerifyOptions struct {
	Namespace string         // empty means nvidia.PluginName
	Image     string         // empty means VerifyImage
	Taints    []corev1.Taint // further taints on nodes with GPUs
	RunID     string         // distinguishes this run's Jobs from earlier ones; lower-case letters and digits
	// Resource is what is verified, if that is not nvidia.Resource but the instances of one MIG profile.
	Resource corev1.ResourceName
	Timeout  time.Duration // for one node, with pulling the image; 0 means ten minutes
}

//go:embed verify.sh
var verifyScript string

const (
	verifyFile = "verify.sh"
	verifyDir  = "/verify"
	verifyMap  = "gpu-verify-script" // the same for every run and node
	labelRun   = "homelab.cps-gpu.github.com/verify"
)

// JobName returns the name of the Job for a node.
func (o VerifyOptions) JobName(node string) string {
	if o.Resource == "" || o.Resource == nvidia.Resource {
		return VerifyName(node, o.RunID)
	}
	_, what, _ := strings.Cut(string(o.Resource), "/")
	return VerifyName(node+"-"+strings.ReplaceAll(what, ".", "-"), o.RunID)
}

// VerifyName returns the name of the Job for a node, or, as NODE-mig-3g-20gb, of that for some
// of its instances.
func VerifyName(node, runID string) string {
	name := "gpu-verify-" + strings.ReplaceAll(node, ".", "-")
	if runID != "" {
		name += "-" + runID
	}
	const most = 50 // a pod's name is the Job's, a dash and five characters, and must fit a label
	if len(name) > most {
		sum := sha256.Sum256([]byte(name))
		name = strings.TrimRight(name[:most-13], "-") + "-" + hex.EncodeToString(sum[:6])
	}
	return name
}

// VerifyObjects returns a Job that computes on every GPU of one node. It requests all of them
// at once, which also shows that Kubernetes can allocate them, and fails if the container sees
// another number. The ConfigMap before it holds the script and is the same for every node.
// When the Job ends, its container's termination message is for [ParseVerify].
func VerifyObjects(node string, gpus int, o VerifyOptions) []runtime.Object {
	if o.Namespace == "" {
		o.Namespace = nvidia.PluginName
	}
	if o.Image == "" {
		o.Image = VerifyImage
	}
	if o.Timeout == 0 {
		o.Timeout = 10 * time.Minute
	}
	meta := metav1.ObjectMeta{
		Name:      o.JobName(node),
		Namespace: o.Namespace,
		Labels:    map[string]string{"app.kubernetes.io/name": "gpu-verify", labelRun: o.JobName(node)},
	}
	return []runtime.Object{
		&corev1.ConfigMap{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
			ObjectMeta: metav1.ObjectMeta{Name: verifyMap, Namespace: o.Namespace, Labels: map[string]string{"app.kubernetes.io/name": "gpu-verify"}},
			Data:       map[string]string{verifyFile: verifyScript},
		},
		&batchv1.Job{
			TypeMeta:   metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"},
			ObjectMeta: meta,
			Spec:       verifyJob(node, gpus, meta, o),
		},
	}
}

func verifyJob(node string, gpus int, meta metav1.ObjectMeta, o VerifyOptions) batchv1.JobSpec {
	var retries, ttl int32 = 0, 3600 // seconds: long enough to inspect a failure
	deadline := int64(o.Timeout / time.Second)
	class, no := nvidia.RuntimeClass, false
	asks := o.Resource
	if asks == "" {
		asks = nvidia.Resource
	}
	return batchv1.JobSpec{
		BackoffLimit:            &retries,
		ActiveDeadlineSeconds:   &deadline,
		TTLSecondsAfterFinished: &ttl,
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: meta.Labels},
			Spec: corev1.PodSpec{
				RestartPolicy:                corev1.RestartPolicyNever,
				RuntimeClassName:             &class,
				NodeSelector:                 map[string]string{corev1.LabelHostname: node}, // the scheduler still decides: a node without free GPUs says so
				Tolerations:                  Tolerations(o.Taints...),
				AutomountServiceAccountToken: &no,
				Containers: []corev1.Container{{
					Name:    "verify",
					Image:   o.Image,
					Command: []string{"sh", verifyDir + "/" + verifyFile, strconv.Itoa(gpus)},
					Resources: corev1.ResourceRequirements{
						Limits: corev1.ResourceList{asks: *resource.NewQuantity(int64(gpus), resource.DecimalSI)},
					},
					TerminationMessagePath:   corev1.TerminationMessagePathDefault,
					TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
					VolumeMounts:             []corev1.VolumeMount{{Name: "script", MountPath: verifyDir, ReadOnly: true}},
				}},
				Volumes: []corev1.Volume{{Name: "script", VolumeSource: corev1.VolumeSource{
					ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: verifyMap}},
				}}},
			},
		},
	}
}

// VerifyResult is the result of one GPU.
type VerifyResult struct {
	UUID   string `json:"uuid"`
	Index  int    `json:"index"` // in the container
	Name   string `json:"name"`
	Driver string `json:"driver"` // version
	Memory int64  `json:"memory"` // bytes
	Passed bool   `json:"passed"`
	Detail string `json:"detail,omitempty"` // the sample's words, when it failed
}

// Columns of a line of verify.sh that begins with "gpu".
const (
	verifyKind = iota
	verifyUUID
	verifyIndex
	verifyVerdict
	verifyName
	verifyDriver
	verifyMemory
	verifyDetail
	verifyColumns
)

// ParseVerify reads the results that verify.sh prints for each GPU. The error has its other
// messages: that there are too few GPUs, or none. A failed GPU is a result, not an error.
func ParseVerify(message string) ([]VerifyResult, error) {
	var results []VerifyResult
	var errs []error
	for line := range strings.Lines(message) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		text, ok := strings.CutPrefix(line, "error|")
		if ok {
			errs = append(errs, fmt.Errorf("GPU verification: %s", text))
			continue
		}
		r, err := parseVerdict(line)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		results = append(results, r)
	}
	if len(results) == 0 && len(errs) == 0 {
		errs = append(errs, errors.New("GPU verification: the Job left no results"))
	}
	return results, errors.Join(errs...)
}

func parseVerdict(line string) (VerifyResult, error) {
	col := strings.SplitN(line, "|", verifyColumns)
	if len(col) != verifyColumns || col[verifyKind] != "gpu" || col[verifyUUID] == "" || col[verifyVerdict] != "PASSED" && col[verifyVerdict] != "FAILED" {
		return VerifyResult{}, fmt.Errorf("GPU verification: %q is not a result", line)
	}
	index, err := strconv.Atoi(col[verifyIndex])
	if err != nil || index < 0 {
		return VerifyResult{}, fmt.Errorf("GPU verification: %q is not a result: index %q", line, col[verifyIndex])
	}
	mib, _ := strconv.ParseUint(strings.TrimSpace(col[verifyMemory]), 10, 31) // an instance may not read it
	return VerifyResult{
		UUID: col[verifyUUID], Index: index, Name: col[verifyName], Driver: col[verifyDriver],
		Memory: int64(mib) << 20,
		Passed: col[verifyVerdict] == "PASSED", Detail: col[verifyDetail],
	}, nil
}

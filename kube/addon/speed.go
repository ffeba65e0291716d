package addon

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/cps-gpu/homelab/kube"
)

// speedScript measures by what dd says. busybox (coreutils/dd.c, 1.37) counts the time until
// fsync has returned, and knows iflag=direct, which passes the node's memory.
//
//go:embed speed.sh
var speedScript string

// SpeedMiB is the size of the file that [Probe.Measure] writes.
const SpeedMiB = 128

// Speed is what a volume did in a second, in MB/s.
type Speed struct {
	Write float64
	Read  float64 // 0: reads of this volume always come from the node's memory
}

// Measure creates a volume of the class, writes a file of [SpeedMiB] to it from a pod on a node,
// reads it back and compares it, and removes everything, as [Probe.Run] does. Leftovers of an
// earlier run are removed first.
func (p Probe) Measure(ctx context.Context, k *kube.Client, node string) (Speed, error) {
	p.setDefaults()
	ctx, cancel := context.WithTimeoutCause(ctx, p.Timeout, fmt.Errorf("not done within %s", p.Timeout))
	defer cancel()
	sc := p.class()
	err := k.Get(ctx, sc)
	switch {
	case errors.Is(err, kube.ErrNotFound):
		return Speed{}, fmt.Errorf("there is no storage class %s", p.Class)
	case err != nil:
		return Speed{}, err
	}
	if _, err := k.Apply(ctx, namespaceObject(p.Namespace, ownLabels("probe"))); err != nil {
		return Speed{}, err
	}
	waits := sc.VolumeBindingMode != nil && *sc.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
	t := trial{Probe: p, name: shortName("speed-" + p.Class + "-" + node), writer: node, reader: node, waits: waits}
	var out Speed
	claim := t.claim()
	if err := k.Get(ctx, claim); err == nil && claim.Labels[ownerLabel] != owner {
		return out, fmt.Errorf("claim %s/%s is not homelab's, so it is not touched", t.Namespace, t.name)
	}
	err = t.withVolume(ctx, k, func(ctx context.Context) error {
		words, err := t.runPod(ctx, k, t.speedPod())
		if err != nil {
			return err
		}
		out, err = parseSpeed(words)
		return err
	})
	return out, err
}

// speedPod is the writing pod with another script, and memory for two copies of the file.
func (t trial) speedPod() *corev1.Pod {
	pod := t.pod("write", t.writer, speedScript, "")
	size := resource.MustParse(fmt.Sprintf("%dMi", 2*SpeedMiB+8))
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "mem", VolumeSource: corev1.VolumeSource{
		EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory, SizeLimit: &size}}})
	c := &pod.Spec.Containers[0]
	c.Env = []corev1.EnvVar{{Name: "MIB", Value: fmt.Sprint(SpeedMiB)}}
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "mem", MountPath: "/mem"})
	return pod
}

// copied matches the last line of dd, in busybox as in coreutils.
var copied = regexp.MustCompile(`^(\d+) bytes .*copied, ([0-9.e+-]+) s`)

// parseSpeed reads the last words of the script.
func parseSpeed(words string) (Speed, error) {
	lines := strings.Split(strings.TrimSpace(words), "\n")
	if len(lines) != 3 {
		return Speed{}, fmt.Errorf("the pod left no result, but %q", words)
	}
	var speeds [2]float64
	for i, line := range lines[1:] {
		m := copied.FindStringSubmatch(line)
		if m == nil {
			return Speed{}, fmt.Errorf("dd said %q", line)
		}
		bytes, _ := strconv.ParseFloat(m[1], 64)
		seconds, _ := strconv.ParseFloat(m[2], 64)
		const least = 1e-6 // dd's resolution
		speeds[i] = bytes / max(seconds, least) / 1e6
	}
	if lines[0] != "direct" {
		speeds[1] = 0
	}
	return Speed{speeds[0], speeds[1]}, nil
}

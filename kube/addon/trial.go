package addon

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/kube"
)

// trial is one test volume of a probe.
type trial struct {
	Probe
	name           string // of the claim; pods are named after it
	writer, reader string // nodes
	waits          bool   // the volume is made when its first pod is scheduled
}

// The scripts of the pods. They write the result to the termination message, so no log is
// needed.
const (
	writeScript = `printf %s "$TEXT" > /probe/text && cat /probe/text > /dev/termination-log`
	readScript  = `cat /probe/text > /dev/termination-log && rm /probe/text`
)

const mountPath = "/probe"

func (t trial) run(ctx context.Context, k *kube.Client) error {
	return t.withVolume(ctx, k, func(ctx context.Context) error {
		claim, err := k.ClaimState(ctx, t.Namespace, t.name)
		if err != nil {
			return err
		}
		// The claim's own id, which no other volume contains.
		for _, step := range []struct{ verb, node, script string }{{"write", t.writer, writeScript}, {"read", t.reader, readScript}} {
			got, err := t.runPod(ctx, k, t.pod(step.verb, step.node, step.script, claim.UID))
			if err != nil {
				return fmt.Errorf("%s on %s: %w", step.verb, step.node, err)
			}
			if got != claim.UID {
				return fmt.Errorf("%s on %s: the volume holds %q where %q was written", step.verb, step.node, got, claim.UID)
			}
		}
		return nil
	})
}

// withVolume runs do while the trial's claim exists, and has its volume if the class does not wait.
func (t trial) withVolume(ctx context.Context, k *kube.Client, do func(context.Context) error) (err error) {
	if err := t.remove(ctx, k); err != nil {
		return fmt.Errorf("cleaning up after an earlier try: %w", err)
	}
	defer func() {
		// Also after a failure or a cancellation, so that nothing is left.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		if left := t.remove(ctx, k); left != nil {
			err = errors.Join(err, fmt.Errorf("removing the volume: %w", left))
		}
	}()
	if _, err := k.Apply(ctx, t.claim()); err != nil {
		return err
	}
	if !t.waits {
		if err := t.awaitBound(ctx, k); err != nil {
			return err
		}
	}
	return do(ctx)
}

func (t trial) claim() *corev1.PersistentVolumeClaim {
	return claimOf(meta("probe", t.Namespace, t.name), &t.Class, t.Mode, t.Size)
}

// pod runs a script with the volume, as the user and group of notebooks: root could write
// where they cannot.
func (t trial) pod(verb, node, script, text string) *corev1.Pod {
	user, group, yes, no, now := int64(1000), int64(100), true, false, int64(0)
	return &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: meta("probe", t.Namespace, t.name+"-"+verb),
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, TerminationGracePeriodSeconds: &now, AutomountServiceAccountToken: &no,
			// Not nodeName: the scheduler must see the pod, because it triggers the creation
			// of a local volume.
			Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{{
					Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}}}}}}},
			Tolerations: t.Tolerations,
			SecurityContext: &corev1.PodSecurityContext{RunAsUser: &user, RunAsGroup: &group, FSGroup: &group, RunAsNonRoot: &yes,
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
			Containers: []corev1.Container{{
				Name: verb, Image: t.Image, Command: []string{"sh", "-c", script},
				Env:                      []corev1.EnvVar{{Name: "TEXT", Value: text}},
				VolumeMounts:             []corev1.VolumeMount{{Name: "volume", MountPath: mountPath}},
				TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
				SecurityContext:          noCapabilities(),
			}},
			Volumes: []corev1.Volume{{Name: "volume", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: t.name}}}},
		},
	}
}

// awaitBound waits until the claim has its volume.
func (t trial) awaitBound(ctx context.Context, k *kube.Client) error {
	return await(ctx, func(ctx context.Context) (string, error) {
		c, err := k.ClaimState(ctx, t.Namespace, t.name)
		if err != nil || c.Bound {
			return "", err
		}
		return withReason(fmt.Sprintf("claim %s/%s has no volume", t.Namespace, t.name), c.Reason), nil
	})
}

// runPod runs a pod to its end, returns what it wrote, and removes it, because a volume for
// one node at a time moves only when no pod uses it.
func (t trial) runPod(ctx context.Context, k *kube.Client, pod *corev1.Pod) (text string, err error) {
	if _, err := k.Apply(ctx, pod); err != nil {
		return "", err
	}
	var end kube.Pod
	err = await(ctx, func(ctx context.Context) (string, error) {
		var err error
		if end, err = k.PodState(ctx, pod.Namespace, pod.Name); err != nil || end.Ended() {
			return "", err
		}
		why := end.Reason
		if c, err := k.ClaimState(ctx, t.Namespace, t.name); err == nil && !c.Bound && c.Reason != "" {
			why = strings.TrimPrefix(why+"; its claim: "+c.Reason, "; ")
		}
		return withReason(fmt.Sprintf("pod %s/%s does not run", pod.Namespace, pod.Name), why), nil
	})
	if err != nil {
		return "", err
	}
	for _, e := range end.Ends {
		text = strings.TrimSpace(e.Message)
		if e.ExitCode != 0 {
			return "", fmt.Errorf("the pod ended with exit status %d: %s", e.ExitCode, text)
		}
	}
	if end.Phase == corev1.PodFailed {
		return "", fmt.Errorf("the pod failed: %s", end.Reason)
	}
	return text, t.waitGone(ctx, k, pod)
}

// remove removes everything of the trial, and waits until it is gone. A volume of a class that
// retains would stay forever, so its policy is changed to delete it with its claim.
func (t trial) remove(ctx context.Context, k *kube.Client) error {
	pods := []runtime.Object{t.pod("write", t.writer, "", ""), t.pod("read", t.reader, "", "")}
	if err := t.waitGone(ctx, k, pods...); err != nil {
		return err
	}
	claim, err := k.ClaimState(ctx, t.Namespace, t.name)
	if err != nil {
		return err
	}
	if claim.Volume != "" {
		err := k.SetReclaimPolicy(ctx, claim.Volume, corev1.PersistentVolumeReclaimDelete)
		if err != nil && !errors.Is(err, kube.ErrNotFound) {
			return err
		}
	}
	objects := []runtime.Object{t.claim()}
	if claim.Volume != "" {
		objects = append(objects, &corev1.PersistentVolume{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolume"}, ObjectMeta: metav1.ObjectMeta{Name: claim.Volume}})
	}
	if err := k.Delete(ctx, objects[0]); err != nil {
		return err
	}
	return t.awaitGone(ctx, k, objects...)
}

func (t trial) waitGone(ctx context.Context, k *kube.Client, objects ...runtime.Object) error {
	if err := k.Delete(ctx, objects...); err != nil {
		return err
	}
	return t.awaitGone(ctx, k, objects...)
}

// awaitGone waits until objects are gone.
func (t trial) awaitGone(ctx context.Context, k *kube.Client, objects ...runtime.Object) error {
	for _, o := range objects {
		err := await(ctx, func(ctx context.Context) (string, error) {
			left := o.DeepCopyObject()
			err := k.Get(ctx, left)
			if errors.Is(err, kube.ErrNotFound) {
				return "", nil
			}
			return fmt.Sprintf("%s of class %s is still there", describe(left), t.Class), err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func describe(o runtime.Object) string {
	m, ok := o.(metav1.Object)
	if !ok {
		return fmt.Sprintf("%T", o)
	}
	ref := kube.Ref{Kind: o.GetObjectKind().GroupVersionKind().Kind, Namespace: m.GetNamespace(), Name: m.GetName()}
	return ref.String()
}

func withReason(what, why string) string {
	if why == "" {
		return what + " yet"
	}
	return what + ": " + why
}

// every is the interval between two checks of a trial.
const every = time.Second

// await calls look repeatedly until it returns no reason to wait. It reports the reason as
// progress, and returns it when the time is over.
func await(ctx context.Context, look func(context.Context) (waiting string, err error)) error {
	return converge.Until(ctx, converge.WaitRule{Poll: every, Strict: true}, look)
}

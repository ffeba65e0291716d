package verify

import (
	"context"
	"crypto/rand"
	"encoding/hex"
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

// Namespace is where checks create what they need, if it need not be elsewhere.
const Namespace = "homelab-probe"

// owner labels what checks create.
const ownerLabel, owner = "app.kubernetes.io/managed-by", "homelab"

// Word is a word that nobody has written before.
func Word() string {
	b := make([]byte, 8)
	_, _ = rand.Read(b) // cannot fail
	return "homelab" + hex.EncodeToString(b)
}

// Pod is a small pod that runs a command of a shell and ends.
func (c Cluster) Pod(namespace, name, script string, env ...corev1.EnvVar) *corev1.Pod {
	user, yes, no, now := int64(1000), true, false, int64(0)
	return &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "homelab-verify-" + name, Labels: labels()},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, TerminationGracePeriodSeconds: &now, AutomountServiceAccountToken: &no, Tolerations: c.Tolerations,
			SecurityContext: &corev1.PodSecurityContext{RunAsUser: &user, RunAsGroup: &user, RunAsNonRoot: &yes,
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
			Containers: []corev1.Container{{
				Name: "verify", Image: c.Image, Command: []string{"sh", "-c", script}, Env: env,
				TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
				SecurityContext:          &corev1.SecurityContext{AllowPrivilegeEscalation: &no, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}},
			}},
		},
	}
}

// BalancedService is a Service without pods that asks for an address of a load balancer.
func (c Cluster) BalancedService(name string) *corev1.Service {
	return &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: "homelab-verify-" + name, Labels: labels()},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Name: "none", Port: 9, Protocol: corev1.ProtocolTCP}}},
	}
}

func labels() map[string]string {
	return map[string]string{"app.kubernetes.io/part-of": "homelab", ownerLabel: owner, "app.kubernetes.io/name": "verify"}
}

// WithObject creates an object, does something while it exists, and removes it, also after a failure or an interruption. One
// of the same name that an earlier run left is removed first.
func (c Cluster) WithObject(ctx context.Context, o runtime.Object, do func(context.Context) error) (err error) {
	if meta, ok := o.(metav1.Object); ok && meta.GetNamespace() == Namespace {
		if _, err := c.Kube.Apply(ctx, &corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: Namespace, Labels: labels()}}); err != nil {
			return err
		}
	}
	if err := c.remove(ctx, o); err != nil {
		return fmt.Errorf("removing what an earlier run left: %w", err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		err = errors.Join(err, c.remove(ctx, o))
	}()
	if _, err := c.Kube.Apply(ctx, o); err != nil {
		return err
	}
	return do(ctx)
}

// remove deletes an object of a check, and waits until it is gone.
func (c Cluster) remove(ctx context.Context, o runtime.Object) error {
	live, err := kube.ToUnstructured(o)
	if err != nil {
		return err
	}
	switch err := c.Kube.Get(ctx, live); {
	case errors.Is(err, kube.ErrNotFound):
		return nil
	case err != nil:
		return err
	case live.GetLabels()[ownerLabel] != owner:
		return fmt.Errorf("%s is not ours: it has no label %s=%s; rename or remove it", kube.RefOf(live), ownerLabel, owner)
	}
	if err := c.Kube.Delete(ctx, o); err != nil {
		return err
	}
	return Await(ctx, func(ctx context.Context) (string, error) {
		err := c.Kube.Get(ctx, o.DeepCopyObject())
		if errors.Is(err, kube.ErrNotFound) {
			return "", nil
		}
		return "it is being deleted", err
	})
}

// Await looks every second until nothing is waited for any more. Errors end it.
func Await(ctx context.Context, look func(context.Context) (waiting string, err error)) error {
	return converge.Until(ctx, converge.WaitRule{Poll: time.Second, Strict: true, OnChange: func(string) {}}, look)
}

// Ends waits until a pod has ended, and returns what it wrote to its termination message.
func (c Cluster) Ends(ctx context.Context, pod *corev1.Pod) (string, error) {
	var end kube.Pod
	err := Await(ctx, func(ctx context.Context) (string, error) {
		var err error
		if end, err = c.Kube.PodState(ctx, pod.Namespace, pod.Name); err != nil || end.Ended() {
			return "", err
		}
		return strings.TrimSuffix(fmt.Sprintf("pod %s/%s does not run: %s", pod.Namespace, pod.Name, end.Reason), ": "), nil
	})
	if err != nil {
		return "", err
	}
	text := end.Reason
	for _, e := range end.Ends {
		if text = strings.TrimSpace(e.Message); e.ExitCode != 0 {
			return "", fmt.Errorf("the pod ended with exit status %d: %s", e.ExitCode, text)
		}
	}
	if end.Phase == corev1.PodFailed {
		return "", fmt.Errorf("the pod failed: %s", text)
	}
	return text, nil
}

package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cps-gpu/homelab/converge"
)

// Drain configures how a node is emptied.
type Drain struct {
	Timeout        time.Duration // default 5 minutes
	DeleteEmptyDir bool          // evict pods whose emptyDir volumes, and the data in them, go with them
	Force          bool          // evict pods that nothing recreates
	GracePeriod    time.Duration // for pods to end; default their own
	// Approve is asked once the pods are listed, and again if others have come, before any of them is
	// evicted. Its error ends the drain. May be nil.
	Approve func(context.Context) error
}

// DrainError is a node that could not be emptied.
type DrainError struct {
	Node    string
	Waiting []string // a phrase for each pod that is still there, with the reason
}

// Error lists the pods.
func (e *DrainError) Error() string {
	return fmt.Sprintf("drain node %s: %d pods are still there: %s", e.Node, len(e.Waiting), strings.Join(e.Waiting, "; "))
}

// Cordon keeps new pods off a node. It writes nothing if the node is cordoned already.
func (c *Client) Cordon(ctx context.Context, name string) error {
	return c.cordon(ctx, name, true)
}

// Uncordon lets new pods onto a node.
func (c *Client) Uncordon(ctx context.Context, name string) error {
	return c.cordon(ctx, name, false)
}

func (c *Client) cordon(ctx context.Context, name string, cordoned bool) error {
	n, err := c.Node(ctx, name)
	if err != nil || n.Cordoned == cordoned {
		return err
	}
	doing := "uncordon node " + name
	var value any // null: the field goes away
	if cordoned {
		doing, value = "cordon node "+name, true
	}
	return c.patchNode(ctx, doing, name, map[string]any{"spec": map[string]any{"unschedulable": value}})
}

// Drain cordons a node and evicts its pods, honouring disruption budgets, and returns when
// they are gone. Pods of DaemonSets and of the kubelet itself stay. If a pod may not be
// evicted under d, it returns a [*DrainError] and evicts none.
func (c *Client) Drain(ctx context.Context, name string, d Drain) error {
	if err := c.Cordon(ctx, name); err != nil {
		return err
	}
	if d.Timeout <= 0 {
		d.Timeout = 5 * time.Minute
	}
	var waiting []heldPod
	var refused error
	asked := map[types.UID]bool{}
	ask := func(pods []corev1.Pod) error { return d.approve(ctx, pods, asked) } // not bound to the time for the pods
	first := true
	err := converge.Until(ctx, converge.WaitRule{What: "draining " + name, Limit: d.Timeout, Strict: true}, func(ctx context.Context) (string, error) {
		pods, err := c.pods(ctx, "drain node "+name, "", fieldSelectorForNode(name))
		if err != nil {
			return "", err
		}
		if pods = slices.DeleteFunc(pods, SurvivesDrain); len(pods) == 0 {
			return "", nil
		}
		if first {
			if never := d.refusedEvictions(pods); len(never) > 0 {
				return "", &DrainError{Node: name, Waiting: never}
			}
			first = false
		}
		if refused = ask(pods); refused != nil {
			return "", converge.Permanent(refused)
		}
		still, err := c.evictAll(ctx, pods, d)
		if err != nil {
			return "", err
		}
		if waiting = still; len(waiting) == 0 { // check once more whether they are gone
			return "its pods go", nil
		}
		return "waiting for " + summary(phrases(waiting)), nil
	})
	if refused != nil {
		return refused
	}
	var over *converge.WaitError
	if !errors.As(err, &over) || len(waiting) == 0 {
		return err
	}
	left := error(&DrainError{Node: name, Waiting: c.explainHeld(ctx, waiting)})
	if over.Err != nil { // and it is unknown whether they still are
		left = fmt.Errorf("%w: %w", left, over.Err)
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", left, ctx.Err())
	}
	return left
}

// CountEvictions returns how many pods a drain of a node would have to evict.
func (c *Client) CountEvictions(ctx context.Context, name string) (int, error) {
	pods, err := c.pods(ctx, "count the pods of node "+name, "", fieldSelectorForNode(name))
	if err != nil {
		return 0, err
	}
	return len(slices.DeleteFunc(pods, SurvivesDrain)), nil
}

// SurvivesDrain reports whether a drain leaves a pod where it is: one of a DaemonSet, or the
// kubelet's own, which come and go with their node.
func SurvivesDrain(p corev1.Pod) bool {
	_, mirror := p.Annotations[corev1.MirrorPodAnnotationKey]
	o := metav1.GetControllerOf(&p)
	return mirror || o != nil && o.Kind == "DaemonSet"
}

// approve asks May about pods that are to be evicted, unless it was asked about all of them.
func (d Drain) approve(ctx context.Context, pods []corev1.Pod, asked map[types.UID]bool) error {
	others := slices.DeleteFunc(slices.Clone(pods), func(p corev1.Pod) bool { return p.DeletionTimestamp != nil || asked[p.UID] })
	if d.Approve == nil || len(others) == 0 {
		return nil
	}
	for _, p := range others {
		asked[p.UID] = true
	}
	return d.Approve(ctx)
}

// refusedEvictions returns a phrase for each pod that may not be evicted.
func (d Drain) refusedEvictions(pods []corev1.Pod) []string {
	var out []string
	for i := range pods {
		p := &pods[i]
		ended := PodEnded(p.Status.Phase)
		switch {
		case ended || p.DeletionTimestamp != nil:
		case !d.Force && metav1.GetControllerOf(p) == nil:
			out = append(out, "pod "+podRef(p)+" has no controller that would recreate it (force evicts it)")
		case !d.DeleteEmptyDir && hasEmptyDir(p):
			out = append(out, "pod "+podRef(p)+" has data in an emptyDir (allow deleting it)")
		}
	}
	return out
}

func hasEmptyDir(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool { return v.EmptyDir != nil })
}

// evictAll asks for the eviction of each pod that is not on its way already, and
// returns a phrase for each pod that is still there.
func (c *Client) evictAll(ctx context.Context, pods []corev1.Pod, d Drain) ([]heldPod, error) {
	var waiting []heldPod
	for i := range pods {
		p := &pods[i]
		if p.DeletionTimestamp != nil {
			waiting = append(waiting, heldPod{pod: p, phrase: "pod " + podRef(p) + " to end"})
			continue
		}
		err := c.evict(ctx, p, d)
		var status apierrors.APIStatus
		switch {
		case err == nil:
			waiting = append(waiting, heldPod{pod: p, phrase: "pod " + podRef(p) + " to end"})
		case errors.Is(err, ErrNotFound) || errors.Is(err, ErrConflict):
		case errors.As(err, &status) && status.Status().Code == http.StatusTooManyRequests:
			waiting = append(waiting, heldPod{p, "pod " + podRef(p) + ": PDB " + budget(status.Status()), true})
		default:
			return nil, err
		}
	}
	return waiting, nil
}

func (c *Client) evict(ctx context.Context, p *corev1.Pod, d Drain) error {
	options := &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &p.UID}}
	if d.GracePeriod > 0 {
		seconds := int64(d.GracePeriod / time.Second)
		options.GracePeriodSeconds = &seconds
	}
	return c.do(ctx, request{doing: "evict pod " + podRef(p), verb: http.MethodPost,
		path: path(corev1.SchemeGroupVersion, p.Namespace, "pods", p.Name, "eviction"),
		body: policyv1.Eviction{
			TypeMeta:      metav1.TypeMeta{APIVersion: "policy/v1", Kind: "Eviction"},
			ObjectMeta:    metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name},
			DeleteOptions: options,
		}}, nil)
}

// budget says why an eviction was refused, in the API server's words: the cause
// names the budget and counts its pods.
func budget(s metav1.Status) string {
	if s.Details != nil {
		for _, cause := range s.Details.Causes {
			if cause.Message != "" {
				return cause.Message
			}
		}
	}
	return s.Message
}

// summary is the first phrase, and how many more there are.
func summary(waiting []string) string {
	if len(waiting) == 1 {
		return waiting[0]
	}
	return fmt.Sprintf("%s, and %d more", waiting[0], len(waiting)-1)
}

package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// Claim is the state of a PersistentVolumeClaim, and the reason.
type Claim struct {
	Found  bool
	UID    string
	Bound  bool
	Volume string // name of its PersistentVolume
	Reason string // why it is not bound; e.g. "ProvisioningFailed: …"
}

// ClaimState returns the state of a claim.
func (c *Client) ClaimState(ctx context.Context, namespace, name string) (Claim, error) {
	var p corev1.PersistentVolumeClaim
	err := c.do(ctx, request{doing: fmt.Sprintf("look at claim %s/%s", namespace, name),
		path: path(corev1.SchemeGroupVersion, namespace, "persistentvolumeclaims", name)}, &p)
	if errors.Is(err, ErrNotFound) {
		return Claim{}, nil
	}
	if err != nil {
		return Claim{}, err
	}
	out := Claim{Found: true, UID: string(p.UID), Bound: p.Status.Phase == corev1.ClaimBound, Volume: p.Spec.VolumeName}
	if out.Bound {
		return out, nil
	}
	out.Reason, err = c.lastEvent(ctx, namespace, "PersistentVolumeClaim", name)
	return out, err
}

// Pod is the state of a pod, and the reason.
type Pod struct {
	Found  bool
	Phase  corev1.PodPhase
	Node   string
	Reason string        // why it does not run or has failed
	Ends   []Termination // how its containers ended
}

// Ended reports whether its containers have ended, successfully or not.
func (p Pod) Ended() bool { return PodEnded(p.Phase) }

// PodEnded reports whether a pod of that phase has succeeded or failed: none of its containers
// runs, or will run again.
func PodEnded(phase corev1.PodPhase) bool {
	return phase == corev1.PodSucceeded || phase == corev1.PodFailed
}

// PodState returns the state of a pod.
func (c *Client) PodState(ctx context.Context, namespace, name string) (Pod, error) {
	var p corev1.Pod
	err := c.do(ctx, request{doing: fmt.Sprintf("look at pod %s/%s", namespace, name),
		path: path(corev1.SchemeGroupVersion, namespace, "pods", name)}, &p)
	if errors.Is(err, ErrNotFound) {
		return Pod{}, nil
	}
	if err != nil {
		return Pod{}, err
	}
	out := Pod{Found: true, Phase: p.Status.Phase, Node: p.Spec.NodeName, Reason: stuckReason(&p), Ends: terminations(&p)}
	if p.Status.Phase == corev1.PodPending && (out.Reason == "" || strings.Contains(out.Reason, "ContainerCreating")) {
		// Why a volume is not mounted is only in the events.
		event, err := c.lastEvent(ctx, namespace, "Pod", name)
		if err != nil {
			return out, err
		}
		if event != "" {
			out.Reason = event
		}
	}
	return out, nil
}

// lastEvent returns the last of an object's events, a warning if there is one.
func (c *api) lastEvent(ctx context.Context, namespace, kind, name string) (string, error) {
	why, err := c.complaint(ctx, namespace, kind, name)
	if err != nil || why != "" {
		return why, err
	}
	return c.lastOf(ctx, namespace, kind, name, "")
}

// Annotate sets annotations of an existing object; an empty value removes one. It does not
// touch the object's other fields and their owners, and a later [Client.Apply] does not touch
// these annotations.
func (c *Client) Annotate(ctx context.Context, obj runtime.Object, annotations map[string]string) error {
	notes := map[string]any{}
	for k, v := range annotations {
		notes[k] = any(v)
		if v == "" {
			notes[k] = nil
		}
	}
	return c.patch(ctx, "annotate", obj, map[string]any{"metadata": map[string]any{"annotations": notes}})
}

// patch merges fields into an existing object.
func (c *api) patch(ctx context.Context, doing string, obj runtime.Object, fields map[string]any) error {
	u, err := plain(obj)
	if err != nil {
		return err
	}
	p, err := c.place(ctx, u)
	if err != nil {
		return namingObject(doing, u, err)
	}
	return c.do(ctx, request{doing: doing + " " + refOf(u).String(), verb: http.MethodPatch, path: p,
		query: map[string][]string{"fieldManager": {fieldManager}},
		kind:  string(types.MergePatchType), body: fields}, nil)
}

// SetReclaimPolicy sets what happens to a volume when its claim is deleted.
func (c *Client) SetReclaimPolicy(ctx context.Context, volume string, policy corev1.PersistentVolumeReclaimPolicy) error {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion("v1")
	u.SetKind("PersistentVolume")
	u.SetName(volume)
	return c.patch(ctx, "set the reclaim policy of", u, map[string]any{"spec": map[string]any{"persistentVolumeReclaimPolicy": string(policy)}})
}

// ApplyOrRecreate applies an object, and recreates it if it exists and cannot be changed to
// the wanted state. It is for kinds without dependents, such as a StorageClass: its
// volumes do not depend on it.
func (c *Client) ApplyOrRecreate(ctx context.Context, obj runtime.Object) (Change, error) {
	changes, err := c.Apply(ctx, obj)
	if !errors.Is(err, ErrInvalid) {
		return changes[0], err
	}
	refused := err
	if err := c.Delete(ctx, obj); err != nil {
		return Change{}, errors.Join(refused, err)
	}
	if changes, err = c.Apply(ctx, obj); err != nil {
		return Change{}, errors.Join(refused, err)
	}
	changes[0].Result = Configured
	return changes[0], nil
}

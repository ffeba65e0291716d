package kubesim

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// errStale is a write over an object that another has written in the meantime.
var errStale = errors.New("the object has been modified; please apply your changes to the latest version and try again")

// subresource answers for a part of an object that has its own path.
func (c server) subresource(t target, e *entry, method, contentType string, body []byte) (any, int, error) {
	switch {
	case t.sub == "scale" && e.obj["spec"] != nil:
		return c.serveScale(t, e, method, contentType, body)
	case t.sub == "binding" && method == http.MethodPost && t.kind.Kind == "Pod":
		var b corev1.Binding
		if err := json.Unmarshal(body, &b); err != nil {
			return nil, 0, apierrors.NewBadRequest(err.Error())
		}
		p := entryAs[corev1.Pod](e)
		if p.Spec.NodeName != "" {
			return nil, 0, apierrors.NewConflict(t.kind.resource(), t.name, fmt.Errorf("pod %s is already assigned to node %q", p.Name, p.Spec.NodeName))
		}
		c.scheduler().Bind(p, b.Target.Name)
		return success(), http.StatusCreated, nil
	case t.sub == "finalize" && method == http.MethodPut && t.kind.Kind == "Namespace":
		obj, err := decode(body)
		if err != nil {
			return nil, 0, err
		}
		spec, _ := obj["spec"].(map[string]any)
		return c.putField(e, "spec", spec).obj, http.StatusOK, nil
	case t.sub == "token" && method == http.MethodPost && t.kind.Kind == "ServiceAccount":
		return c.token(t, e, body)
	}
	return nil, 0, noPath()
}

func success() map[string]any {
	return map[string]any{"apiVersion": "v1", "kind": "Status", "metadata": map[string]any{}, "status": metav1.StatusSuccess}
}

// serveScale reads or sets how many pods a workload has.
func (c server) serveScale(t target, e *entry, method, contentType string, body []byte) (any, int, error) {
	u := e.u()
	scale := func(e *entry) map[string]any {
		replicas, _, _ := unstructured.NestedInt64(e.obj, "spec", "replicas")
		running, _, _ := unstructured.NestedInt64(e.obj, "status", "replicas")
		s := &autoscalingv1.Scale{
			TypeMeta: metav1.TypeMeta{APIVersion: "autoscaling/v1", Kind: "Scale"},
			ObjectMeta: metav1.ObjectMeta{Name: u.GetName(), Namespace: u.GetNamespace(), UID: u.GetUID(),
				ResourceVersion: e.u().GetResourceVersion(), CreationTimestamp: u.GetCreationTimestamp()},
			Spec: autoscalingv1.ScaleSpec{Replicas: int32(replicas)}, Status: autoscalingv1.ScaleStatus{Replicas: int32(running)}, //nolint:gosec // counts of pods
		}
		if labels, _, _ := unstructured.NestedStringMap(e.obj, "spec", "selector", "matchLabels"); labels != nil {
			s.Status.Selector = metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: labels})
		}
		return toMap(s)
	}
	var wanted map[string]any
	var err error
	switch method {
	case http.MethodGet:
		return scale(e), http.StatusOK, nil
	case http.MethodPut:
		wanted, err = decode(body)
	case http.MethodPatch:
		wanted, err = patch(&entry{kind: e.kind, obj: scale(e)}, contentType, body)
	default:
		return nil, 0, apierrors.NewMethodNotSupported(t.kind.resource(), method)
	}
	if err != nil {
		return nil, 0, err
	}
	if rv := (&unstructured.Unstructured{Object: wanted}).GetResourceVersion(); rv != "" && rv != u.GetResourceVersion() {
		return nil, 0, apierrors.NewConflict(t.kind.resource(), t.name, errStale)
	}
	replicas, _, err := unstructured.NestedInt64(wanted, "spec", "replicas")
	if err != nil || replicas < 0 {
		return nil, 0, apierrors.NewBadRequest("spec.replicas: Invalid value")
	}
	if t.dryRun {
		return scale(e), http.StatusOK, nil
	}
	obj := u.DeepCopy()
	if err := unstructured.SetNestedField(obj.Object, replicas, "spec", "replicas"); err != nil {
		return nil, 0, apierrors.NewInternalError(err)
	}
	return scale(c.store(t.kind, obj.Object)), http.StatusOK, nil
}

// token answers a request for an account's token. The API accepts client certificates only, so
// it is a token for show.
func (c server) token(t target, e *entry, body []byte) (any, int, error) {
	var r authenticationv1.TokenRequest
	if err := json.Unmarshal(body, &r); err != nil {
		return nil, 0, apierrors.NewBadRequest(err.Error())
	}
	seconds := int64(3600)
	if r.Spec.ExpirationSeconds != nil {
		seconds = *r.Spec.ExpirationSeconds
	}
	r.TypeMeta = metav1.TypeMeta{APIVersion: "authentication.k8s.io/v1", Kind: "TokenRequest"}
	r.Name, r.Namespace = t.name, t.namespace
	r.Status = authenticationv1.TokenRequestStatus{Token: "simulated." + e.uid + "." + c.suffix(),
		ExpirationTimestamp: metav1.NewTime(time.Now().Add(time.Duration(seconds) * time.Second))}
	return toMap(&r), http.StatusCreated, nil
}

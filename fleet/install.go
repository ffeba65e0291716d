package fleet

import (
	"context"
	"errors"
	"fmt"

	api "github.com/rancher/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cps-gpu/homelab/internal/printable"
	"github.com/cps-gpu/homelab/kube"
)

const (
	// systemNamespace is where Fleet runs, including Rancher's.
	systemNamespace = "cattle-fleet-system"
	// localNamespace has the GitRepos and bundles for the cluster that Fleet runs in.
	localNamespace = "fleet-local"

	controller    = "fleet-controller"
	localCluster  = "local" // how Fleet calls the cluster that it runs in
	rancherSystem = "cattle-system"
	rancherName   = "rancher"
)

// Copies lists the Fleets of a cluster.
type Copies struct {
	Rancher    bool     // the cluster has Rancher, which brings its own Fleet
	Namespaces []string // namespaces in which a Fleet controller runs
}

// ObserveCopies looks for Rancher and for Fleet's controllers.
func ObserveCopies(ctx context.Context, k *kube.Client) (Copies, error) {
	var c Copies
	rancher := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: rancherSystem, Name: rancherName}}
	switch err := k.Get(ctx, rancher); {
	case err == nil:
		c.Rancher = true
	case !errors.Is(err, kube.ErrNotFound):
		return c, err
	}
	found, err := k.List(ctx, "apps/v1", "Deployment", "", "app="+controller)
	if err != nil {
		return c, err
	}
	for _, d := range found {
		c.Namespaces = append(c.Namespaces, d.GetNamespace())
	}
	return c, nil
}

// CheckCompatible says how the existing Fleets conflict with the wanted one, standalone or Rancher's. Two
// Fleets would undo each other's work.
func (c Copies) CheckCompatible(standalone bool) error {
	switch {
	case len(c.Namespaces) > 1:
		return fmt.Errorf("Fleet is installed in the namespaces %v, and the installations conflict: uninstall all but the one in %s", c.Namespaces, systemNamespace)
	case standalone && c.Rancher:
		return errors.New("this cluster has Rancher, which brings its own Fleet: write fleet.standalone: false")
	case !standalone && !c.Rancher && len(c.Namespaces) > 0:
		return fmt.Errorf("the Fleet in %s was not installed by Rancher, and Rancher would install another: either do without Rancher (fleet.standalone: true), "+
			"or uninstall it first; what it deployed stays if its bundles say keepResources: helm -n %s uninstall fleet", c.Namespaces[0], printable.Word(c.Namespaces[0]))
	}
	return nil
}

// UnreadyReason says what the tool lacks before it can deploy, in words that fit after "waiting: ";
// nothing if it is ready. For Fleet it covers Rancher's Fleet too, which Rancher installs some minutes
// after it is ready itself.
func (t Tool) UnreadyReason(ctx context.Context, k *kube.Client) (string, error) {
	switch t {
	case ToolFlux:
		return fluxUnreadyReason(ctx, k)
	case ToolArgo:
		return argoUnreadyReason(ctx, k)
	}
	for _, o := range []runtime.Object{
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: systemNamespace, Name: controller}},
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: systemNamespace, Name: "gitjob"}},
	} {
		if why, ok, err := k.Ready(ctx, o); err != nil || !ok {
			return why, err
		}
	}
	u := fleetObject("Cluster", localNamespace, localCluster)
	var noKind *kube.NoKindError
	err := k.Get(ctx, u)
	switch {
	case errors.Is(err, kube.ErrNotFound), errors.As(err, &noKind):
		return "Fleet has not registered this cluster yet (cluster " + localNamespace + "/" + localCluster + ")", nil
	case err != nil:
		return "", err
	}
	var c api.Cluster
	if err := decodeInto(*u, &c); err != nil {
		return "", err
	}
	if c.Status.Agent.LastSeen.IsZero() {
		return "Fleet's agent of this cluster has not checked in yet", nil
	}
	return "", nil
}

// fleetObject is a reference to one of Fleet's objects.
func fleetObject(kind, namespace, name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion(api.SchemeGroupVersion.String())
	u.SetKind(kind)
	u.SetNamespace(namespace)
	u.SetName(name)
	return u
}

// decodeInto reads an object as one of Fleet's types.
func decodeInto(u unstructured.Unstructured, out any) error {
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, out); err != nil {
		return fmt.Errorf("%s %s/%s does not have the format of this version of Fleet: %w", u.GetKind(), u.GetNamespace(), u.GetName(), err)
	}
	return nil
}

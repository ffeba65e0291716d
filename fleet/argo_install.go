package fleet

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/kube"
)

// argoServer is the name of the Deployment that renders, of every Argo CD that deploys.
const argoServer = "argocd-repo-server"

// argoUnreadyReason says what Argo CD lacks before it can deploy.
func argoUnreadyReason(ctx context.Context, k *kube.Client) (string, error) {
	for _, o := range []runtime.Object{
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: argoNamespace, Name: argoServer}},
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: argoNamespace, Name: "argocd-redis"}},
		&appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: argoNamespace, Name: "argocd-application-controller"}},
	} {
		if why, ok, err := k.Ready(ctx, o); err != nil || !ok {
			return why, err
		}
	}
	return "", errors.Join(argoTracks(ctx, k), argoRetries(ctx, k))
}

// argoTracks refuses an Argo CD that marks what it deploys with the label app.kubernetes.io/instance: charts
// select their pods by that.
func argoTracks(ctx context.Context, k *kube.Client) error {
	u := newObject("v1", "ConfigMap", argoNamespace, "argocd-cm", nil)
	if err := k.Get(ctx, u); err != nil {
		if errors.Is(err, kube.ErrNotFound) {
			return nil
		}
		return err
	}
	data, _, _ := unstructured.NestedStringMap(u.Object, "data")
	if data["application.resourceTrackingMethod"] == "label" {
		return converge.Permanent(errors.New("Argo CD tracks objects by label, and would change the labels that charts select by: " +
			"set application.resourceTrackingMethod in ConfigMap argocd/argocd-cm to annotation"))
	}
	return nil
}

// argoRetries refuses an Argo CD before 3.2: it repeats a failed commit forever, and never gets to a correction.
func argoRetries(ctx context.Context, k *kube.Client) error {
	u := newObject("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "applications.argoproj.io", nil)
	if err := k.Get(ctx, u); err != nil {
		return err
	}
	versions, _, _ := unstructured.NestedSlice(u.Object, "spec", "versions")
	for _, v := range versions {
		v, ok := v.(map[string]any)
		if !ok || v["name"] != "v1alpha1" {
			continue
		}
		path := []string{"schema", "openAPIV3Schema", "properties", "spec", "properties", "syncPolicy", "properties", "retry", "properties", "refresh"}
		if _, there, _ := unstructured.NestedMap(v, path...); there {
			return nil
		}
	}
	return converge.Permanent(errors.New("this Argo CD has no spec.syncPolicy.retry.refresh, which came with 3.2: " +
		"without it a correction is not deployed while what it corrects is retried: upgrade it"))
}

// CheckNoArgo refuses to install Argo CD beside one that is there: the two would undo each other's work.
func CheckNoArgo(ctx context.Context, k *kube.Client) error {
	found, err := k.List(ctx, "apps/v1", "Deployment", "", "")
	if err != nil {
		return err
	}
	for _, d := range found {
		if d.GetName() != argoServer {
			continue
		}
		if release := d.GetAnnotations()["meta.helm.sh/release-name"]; release != string(ToolArgo) || d.GetNamespace() != argoNamespace {
			return fmt.Errorf("Argo CD is there already, in the namespace %s: write argocd.standalone: false to use it", d.GetNamespace())
		}
	}
	return nil
}

package fleet_test

import (
	"crypto/sha256"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cps-gpu/homelab/fleet"
	"github.com/cps-gpu/homelab/kube/chart"
	"github.com/cps-gpu/homelab/secret"
)

// parts are a small platform that has one of everything.
func parts() []chart.Part {
	retain := corev1.PersistentVolumeReclaimRetain
	yes := true
	return []chart.Part{
		{
			Name: "cert-manager",
			Release: &chart.Release{Name: "cert-manager", Namespace: "cert-manager", Chart: "cert-manager", Version: "v1.21.2", Repo: "https://charts.jetstack.io",
				Values: map[string]any{"crds": map[string]any{"enabled": true, "keep": true}}},
			After: []runtime.Object{&unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "cert-manager.io/v1", "kind": "ClusterIssuer", "metadata": map[string]any{"name": "homelab"},
				"spec": map[string]any{"selfSigned": map[string]any{}},
			}}},
		},
		{
			Name: "nfs",
			Release: &chart.Release{Name: "csi-driver-nfs", Namespace: "kube-system", Chart: "csi-driver-nfs", Version: "4.13.4", Repo: "https://charts.example.com/nfs",
				Values: map[string]any{"externalSnapshotter": map[string]any{"enabled": false}, "note": "${pvc.metadata.namespace}", "answer": "on", "mode": "0755"}},
			After: []runtime.Object{&storagev1.StorageClass{
				ObjectMeta: metav1.ObjectMeta{Name: "nfs", Labels: map[string]string{"app.kubernetes.io/managed-by": "homelab", "app.kubernetes.io/name": "nfs"}}, Provisioner: "nfs.csi.k8s.io", ReclaimPolicy: &retain, AllowVolumeExpansion: &yes,
				Parameters: map[string]string{"server": "10.0.0.30", "share": "/export/k3s", "subDir": "${pvc.metadata.namespace}/${pvc.metadata.name}"},
			}},
			Keep: true,
		},
		{
			Name:            "scratch",
			Release:         &chart.Release{Name: "scratch", Namespace: "scratch", Chart: "local-path-provisioner", Version: "0.0.37", Repo: "oci://ghcr.io/rancher/local-path-provisioner/charts"},
			NamespaceLabels: map[string]string{"pod-security.kubernetes.io/enforce": "privileged", "purpose": "scratch"},
		},
		{
			Name: "jupyterhub", Needs: []string{"cert-manager", "nfs", "ingress"},
			Release: &chart.Release{Name: "jupyterhub", Namespace: "jupyterhub", Chart: "jupyterhub", Version: "4.4.2", Repo: "https://hub.jupyter.org/helm-chart/",
				Values: map[string]any{"hub": map[string]any{"existingSecret": "hub-secrets"}, "singleuser": map[string]any{"cmd": nil, "memory": map[string]any{"limit": "4G"}}}},
			Secrets: []chart.Secret{{Namespace: "jupyterhub", Name: "hub-secrets", Data: map[string]secret.Value{"token": secret.New("never in Git")}}},
			Before: []runtime.Object{
				&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "profiles", Namespace: "jupyterhub"}, Data: map[string]string{"profiles.py": "c.Spawner.x = 1\nc.Spawner.y = 2\n"}},
				&corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "notebooks", Namespace: "jupyterhub"}},
			},
			Keep: true,
		},
	}
}

// relist writes the list of a tree that a test has changed.
func relist(t fleet.Tree) {
	var b strings.Builder
	for _, name := range t.Names() {
		if name != fleet.ListFile {
			fmt.Fprintf(&b, "%x  %s\n", sha256.Sum256(t[name]), name)
		}
	}
	t[fleet.ListFile] = []byte(b.String())
}

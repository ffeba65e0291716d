package addon

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kube/chart"
	"github.com/cps-gpu/homelab/kube/verify"
)

// NFS provides classes of volumes that are folders on NFS servers, named after the
// claim: <namespace>/<claim>-<volume>. A claim recreated under its old name gets a
// new folder; the old one stays beside it.
type NFS struct{ *spec.NFS }

func (n NFS) Info() Info {
	i := Info{
		Name: "nfs", Section: "storage.nfs", On: n.NFS != nil,
		Shared:    true,
		Namespace: "kube-system",
		Chart: chart.Pin{
			Chart: "csi-driver-nfs", Repo: "https://raw.githubusercontent.com/kubernetes-csi/csi-driver-nfs/master/charts",
			Version: "4.13.4", Compared: "2026-07-01",
			Source: "pinned and read: v4.13.4 of 2026-07-01; its Chart.yaml names no Kubernetes version; digest: archive and index.yaml of its branch master",
			Digest: "sha256:3b923d981776f37b19808a3ad790d88517ff437ffce6fa1b97e3a10bb5f771a6",
		},
	}
	if i.On {
		i.Stays = "volumes in " + n.Export + " on " + n.Server
		for _, c := range n.Classes {
			i.Stays += " and in " + c.Export + " on " + cmp.Or(c.Server, n.Server)
		}
	}
	return i
}

func (n NFS) Make(s *Site) (Recipe, error) {
	if err := requireSet("nfs", "server", n.Server, "export", n.Export); err != nil {
		return Recipe{}, err
	}
	first := spec.NFSClass{Name: n.Class, Export: n.Export, Retain: n.Retain, MountOptions: n.MountOptions}
	classes := append([]spec.NFSClass{first}, n.Classes...)
	for _, c := range classes {
		if p := c.Export; !strings.HasPrefix(p, "/") || path.Clean(p) != strings.TrimSuffix(p, "/") && p != "/" {
			return Recipe{}, fmt.Errorf("nfs: export %q: want an absolute path on the server, e.g. /export/k3s", p)
		}
	}
	v := values{"controller": values{
		// If a server is lost, the controller's other replica continues.
		"replicas": s.replicas(2),
		"tolerations": s.tolerations(
			exists("node-role.kubernetes.io/control-plane", corev1.TaintEffectNoSchedule),
			exists("CriticalAddonsOnly", corev1.TaintEffectNoSchedule)),
	}}
	r := s.release(n.Info(), v)
	r.Name = "csi-driver-nfs"
	out := Recipe{Part: chart.Part{Name: "nfs", Release: r, Keep: true}}
	for _, c := range classes {
		out.provide(s, n.class(c))
	}
	var namespaces []string
	for _, share := range n.Shares {
		for _, namespace := range share.Namespaces {
			if !slices.Contains(namespaces, namespace) {
				namespaces = append(namespaces, namespace)
				out.After = append(out.After, namespaceObject(namespace, nil))
			}
			out.After = append(out.After, n.share(share, namespace)...)
			out.Verify = append(out.Verify, verify.Check{Name: fmt.Sprintf("share %s is mounted in %s", share.Name, namespace), Try: mounts(namespace, share.Name)})
		}
	}
	return out, nil
}

func (n NFS) class(c spec.NFSClass) class {
	onDelete := "delete"
	if c.Retain.IsOn() {
		onDelete = "retain"
	}
	return class{
		part: "nfs", name: c.Name, provisioner: kube.NFSDriver, mode: corev1.ReadWriteMany, retain: c.Retain.IsOn(), expand: true,
		parameters: map[string]string{
			"server": cmp.Or(c.Server, n.Server), "share": c.Export,
			"subDir":   "${pvc.metadata.namespace}/${pvc.metadata.name}-${pv.metadata.name}",
			"onDelete": onDelete,
			// The folder's mode. Pods run as various users; the claim decides who may mount it.
			"mountPermissions": "0777",
		},
		mountOptions: c.MountOptions,
	}
}

// mounts tries a share from a pod of its namespace. It writes nothing there, where all is people's.
func mounts(namespace, claim string) func(context.Context, verify.Cluster) (string, error) {
	return func(ctx context.Context, c verify.Cluster) (string, error) {
		pod := c.Pod(namespace, "share-"+claim, "ls -d /share")
		pod.Spec.Volumes = []corev1.Volume{{Name: "share", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim, ReadOnly: true}}}}
		pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "share", MountPath: "/share", ReadOnly: true}}
		err := c.WithObject(ctx, pod, func(ctx context.Context) error {
			_, err := c.Ends(ctx, pod)
			return err
		})
		return "read-only, nothing was written", err
	}
}

// share is a folder as pods of a namespace mount it.
func (n NFS) share(s spec.Share, namespace string) []runtime.Object {
	options := slices.Clone(s.MountOptions)
	if s.ReadOnly {
		options = append(options, "ro")
	}
	return kube.Share{Claim: meta("nfs", namespace, s.Name), Volume: "homelab-share-" + namespace + "-" + s.Name,
		Server: cmp.Or(s.Server, n.Server), Path: s.Export, MountOptions: options}.Objects()
}

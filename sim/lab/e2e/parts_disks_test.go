package e2e

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	typedcore "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/cps-gpu/homelab/internal/pages"
)

// diskScript is what host:role prints for the token of storage.proxmox.
func (l *partsLife) diskScript(t *testing.T) string {
	t.Helper()
	said, _ := l.must(t, "host:role")
	_, script, found := strings.Cut(said, "# For storage.proxmox")
	require.True(t, found, said)
	return script
}

// diskToken runs it as root, and returns the secret that this prints once.
func (l *partsLife) diskToken(t *testing.T) string {
	t.Helper()
	said := l.asRoot(t, "sh", "-c", "#"+l.diskScript(t))
	secret := regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`).FindString(said)
	require.NotEmpty(t, secret, said)
	return secret
}

// accessOfProxmox is who may do what on the simulated host.
func (l *partsLife) accessOfProxmox(t *testing.T) (all string) {
	t.Helper()
	for _, kind := range []string{"user list", "role list", "acl list"} {
		all += l.asRoot(t, append(append([]string{"pveum"}, strings.Fields(kind)...), "--output-format", "json")...)
	}
	return all
}

// diskFollows starts a pod with a volume of Proxmox on a node. The disk is in its VM then, and in no other.
func (l *partsLife) diskFollows(t *testing.T, node string) {
	t.Helper()
	core := l.core(t)
	if _, err := core.PersistentVolumeClaims("default").Get(t.Context(), "disk", metav1.GetOptions{}); err != nil {
		class := "proxmox"
		_, err := core.PersistentVolumeClaims("default").Create(t.Context(), &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "disk"},
			Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}}}}, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	l.endUser(t)
	_, err := core.Pods("default").Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "user"}, Spec: corev1.PodSpec{
		NodeSelector: map[string]string{corev1.LabelHostname: node}, Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		Containers: []corev1.Container{{Name: "c", Image: "busybox", VolumeMounts: []corev1.VolumeMount{{Name: "d", MountPath: "/d"}}}},
		Volumes:    []corev1.Volume{{Name: "d", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "disk"}}}},
	}}, metav1.CreateOptions{})
	require.NoError(t, err)
	l.eventually(t, "the pod runs on "+node, func() bool {
		pod, err := core.Pods("default").Get(t.Context(), "user", metav1.GetOptions{})
		return err == nil && pod.Status.Phase == corev1.PodRunning
	})
	assert.Equal(t, []string{node}, l.vmsWithDisks(t))
}

// endUser ends the pod with the volume, and waits until no VM has it.
func (l *partsLife) endUser(t *testing.T) {
	t.Helper()
	_ = l.core(t).Pods("default").Delete(t.Context(), "user", metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
	l.eventually(t, "no VM has the disk", func() bool { return len(l.vmsWithDisks(t)) == 0 })
}

// vmsWithDisks are the VMs of the cluster that have a volume of a claim.
func (l *partsLife) vmsWithDisks(t *testing.T) (names []string) {
	t.Helper()
	client := l.proxmox(t)
	all, err := client.VMs.List(t.Context(), "homelab-parts")
	require.NoError(t, err)
	for _, vm := range all {
		config := l.asRoot(t, "pvesh", "get", fmt.Sprintf("/nodes/%s/qemu/%d/config", vm.Host, vm.VMID), "--output-format", "json")
		if strings.Contains(config, "vm-9999-pvc-") {
			names = append(names, vm.Name)
		}
	}
	return names
}

// disks are the volumes of claims on the storage.
func (l *partsLife) disks(t *testing.T) (ids []string) {
	t.Helper()
	all, err := l.proxmox(t).Storages.Volumes(t.Context(), "pve1", "vmdata", "")
	require.NoError(t, err)
	for _, v := range all {
		if strings.Contains(v.ID, "vm-9999-pvc-") {
			ids = append(ids, v.ID)
		}
	}
	return ids
}

// disksStay: as long as a claim needs it, the part stays and its claim is named; without one it goes, and the disk stays in
// Proxmox until root deletes it. The token and its roles are undone with the lines that host:role prints.
func (l *partsLife) disksStay(t *testing.T) {
	t.Helper()
	l.write(t, "cluster.yaml", l.last(l.given))
	plan, _, _ := l.run(t, "cluster:plan")
	assert.Contains(t, plan, "part proxmox-csi is no longer in the file but stays: volumes of proxmox are in use and could not be mounted without it: default/disk")
	assert.Regexp(t, `embedded-registry: true → \(none\)`, plan)
	if l.tool == "" {
		pages.Compare(t, "docs/storage.md", "kept", plan, *update)
	}
	_, talk, code := l.run(t, "cluster:up", "-yes")
	assert.Equal(t, 1, code)
	assert.Contains(t, talk, "default/disk")
	assert.NotEmpty(t, l.vmsWithDisks(t), "the pod keeps its disk")
	l.endUser(t)
	require.NoError(t, l.core(t).PersistentVolumeClaims("default").Delete(t.Context(), "disk", metav1.DeleteOptions{}))
	l.eventually(t, "the claim is gone", func() bool {
		_, err := l.core(t).PersistentVolumeClaims("default").Get(t.Context(), "disk", metav1.GetOptions{})
		return err != nil
	})
}

// disksLeft: the part is gone. The disk is in Proxmox until root deletes it, like its token and roles.
func (l *partsLife) disksLeft(t *testing.T, undo string) {
	t.Helper()
	left := l.disks(t)
	require.Len(t, left, 1)
	l.asRoot(t, "pvesh", "delete", "/nodes/pve1/storage/vmdata/content/"+left[0])
	require.Empty(t, l.disks(t))
	for _, line := range regexp.MustCompile(`(?m)pveum (user|role) .*delete .*`).FindAllString(undo, -1) {
		l.asRoot(t, "sh", "-c", line)
	}
	assert.Equal(t, l.access, l.accessOfProxmox(t))
}

func (l *partsLife) core(t *testing.T) typedcore.CoreV1Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(l.server(t))
	require.NoError(t, err)
	return client.CoreV1()
}

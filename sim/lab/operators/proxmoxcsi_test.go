package operators_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/kube/addon"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// TestDisksFollowPods: a claim's volume is a disk of the simulated Proxmox, in a slot of the machine whose pod uses
// it, and goes to the next one's. It grows, and is deleted with its claim if that is wanted.
func TestDisksFollowPods(t *testing.T) {
	host := pvesim.New(pvesim.OneGPU(), pvesim.Options{Speed: 100})
	t.Cleanup(host.Close)
	user, token := host.Token()
	for i, name := range []string{"cp1", "wk1", "wk2"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://pve1:8006/api2/json/nodes/pve1/qemu",
			strings.NewReader(fmt.Sprintf(`{"vmid":%d,"name":%q,"scsihw":"virtio-scsi-single"}`, 200+i, name)))
		require.NoError(t, err)
		req.Header.Set("Authorization", "PVEAPIToken="+user+"="+token)
		req.Header.Set("Content-Type", "application/json")
		res, err := host.Client().Do(req)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, http.StatusOK, res.StatusCode)
	}
	s := newSiteOn(t, host, nil)
	file := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(file, []byte(token), 0o600))
	secret, err := spec.ParseSecretRef("file:" + file)
	require.NoError(t, err)
	recipe, err := addon.ProxmoxCSI{ProxmoxCSI: &spec.ProxmoxCSI{Storage: "vmdata", TokenID: user, TokenSecret: secret, Class: "proxmox"}}.
		Make(&addon.Site{Proxmox: spec.Proxmox{Endpoint: "lab", Region: "home"}})
	s.install(t, recipe.Part, err)
	probe := addon.Probe{Class: "proxmox", Local: true, Nodes: []string{"wk1", "wk2"}, Timeout: time.Minute}
	require.NoError(t, probe.Run(t.Context(), s.kube))
	assert.Empty(t, disksOf(host), "the probe's are gone")

	class, core := "proxmox", s.core.CoreV1()
	_, err = core.PersistentVolumeClaims("default").Create(t.Context(), &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data"},
		Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}}}}, metav1.CreateOptions{})
	require.NoError(t, err)
	for _, node := range []string{"wk1", "wk2", "wk1"} {
		s.uses(t, node)
		eventually(t, 30*time.Second, "the disk is at "+node, func(context.Context) error { return isAt(host, node) })
		if node == "wk2" {
			_, err = core.PersistentVolumeClaims("default").Patch(t.Context(), "data", types.MergePatchType, []byte(`{"spec":{"resources":{"requests":{"storage":"3Gi"}}}}`), metav1.PatchOptions{})
			require.NoError(t, err)
			eventually(t, 30*time.Second, "it has grown", func(context.Context) error {
				if all := host.Volumes(); disksOf(host)[0].Size != 3<<30 {
					return fmt.Errorf("%v", all)
				}
				return nil
			})
		}
		require.NoError(t, core.Pods("default").Delete(t.Context(), "p", metav1.DeleteOptions{GracePeriodSeconds: new(int64)}))
		eventually(t, 30*time.Second, "the disk is nowhere", func(context.Context) error { return isAt(host, "") })
	}

	claim, err := core.PersistentVolumeClaims("default").Get(t.Context(), "data", metav1.GetOptions{})
	require.NoError(t, err)
	_, err = core.PersistentVolumes().Patch(t.Context(), claim.Spec.VolumeName, types.MergePatchType, []byte(`{"spec":{"persistentVolumeReclaimPolicy":"Delete"}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	require.NoError(t, core.PersistentVolumeClaims("default").Delete(t.Context(), "data", metav1.DeleteOptions{}))
	eventually(t, 30*time.Second, "the disk is gone", func(context.Context) error {
		if left := disksOf(host); len(left) > 0 {
			return fmt.Errorf("%v", left)
		}
		return nil
	})
}

// uses runs a pod with the claim on a node.
func (s *site) uses(t *testing.T, node string) {
	t.Helper()
	_, err := s.core.CoreV1().Pods("default").Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{
		NodeSelector: map[string]string{corev1.LabelHostname: node},
		Tolerations:  []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		Containers:   []corev1.Container{{Name: "c", Image: "busybox", VolumeMounts: []corev1.VolumeMount{{Name: "d", MountPath: "/d"}}}},
		Volumes: []corev1.Volume{{Name: "d", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}},
	}}, metav1.CreateOptions{})
	require.NoError(t, err)
	eventually(t, 30*time.Second, "the pod runs on "+node, func(ctx context.Context) error {
		pod, err := s.core.CoreV1().Pods("default").Get(ctx, "p", metav1.GetOptions{})
		if err == nil && pod.Status.Phase != corev1.PodRunning {
			err = errors.New(string(pod.Status.Phase))
		}
		return err
	})
}

// isAt reports whether the one disk is in a slot of a machine, and of no other.
func isAt(host *pvesim.Sim, name string) error {
	for _, vm := range host.VMs() {
		if has := strings.Contains(fmt.Sprint(vm.Config), "vm-9999-pvc-"); has != (vm.Name == name) {
			return fmt.Errorf("%s has %v", vm.Name, vm.Config)
		}
	}
	return nil
}

func disksOf(host *pvesim.Sim) (out []pvesim.Volume) {
	for _, v := range host.Volumes() {
		if v.Owner == 9999 {
			out = append(out, v)
		}
	}
	return out
}

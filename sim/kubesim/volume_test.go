package kubesim_test

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/sim/guest"
)

// apply applies an object as kubectl apply --server-side does.
func (a api) apply(path, body string) {
	a.t.Helper()
	code, out := a.do("PATCH", path+"?fieldManager=test&force=true", "application/apply-patch+yaml", body)
	require.Less(a.t, code, 300, "%v", out)
}

// volumeNode is a machine whose containers write their first argument into /data/f,
// or read it when there is none.
func volumeNode(name string, i int) guest.Node {
	return guest.Node{Name: name, Role: "agent", Version: "v1.36.5+k3s1", CPUs: 4, Memory: 8 << 30,
		InternalIP: netip.AddrFrom4([4]byte{10, 0, 0, byte(11 + i)}),
		Run: func(_ context.Context, c guest.Container) (int, string, string) {
			disk := c.Volumes["/data"]
			if len(c.Args) > 0 {
				_ = disk.WriteFile("/f", []byte(c.Args[0]), 0o644)
				return 0, "", ""
			}
			b, err := disk.ReadFile("/f")
			if err != nil {
				return 1, "", err.Error()
			}
			return 0, "", string(b)
		}}
}

func volumePod(name, node, word string) string {
	args := ""
	if word != "" {
		args = fmt.Sprintf(`,"args":[%q]`, word)
	}
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":%q},"spec":{"restartPolicy":"Never","nodeSelector":{"kubernetes.io/hostname":%q},
"containers":[{"name":"c","image":"i","volumeMounts":[{"name":"v","mountPath":"/data"}]%s}],
"volumes":[{"name":"v","persistentVolumeClaim":{"claimName":"c"}}]}}`, name, node, args)
}

const (
	ns       = "/api/v1/namespaces/default/"
	aClaim   = `{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"c"},"spec":{"storageClassName":%q,"accessModes":["ReadWriteMany"],"resources":{"requests":{"storage":"1Gi"}}}}`
	provider = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"provisioner","annotations":{"homelab.cps-gpu.github.com/provisions":"x.example"}},"spec":{"containers":[{"name":"c","image":"i"}]}}`
)

func TestVolumeIsMadeOnlyWithItsProvisioner(t *testing.T) {
	bubble(t, func(t *testing.T, a api) {
		for i, name := range []string{"a", "b"} {
			require.NoError(t, a.c.Join(t.Context(), volumeNode(name, i)))
		}
		a.apply("/apis/storage.k8s.io/v1/storageclasses/x", `{"apiVersion":"storage.k8s.io/v1","kind":"StorageClass","metadata":{"name":"x"},"provisioner":"x.example","reclaimPolicy":"Delete"}`)
		a.apply(ns+"persistentvolumeclaims/c", fmt.Sprintf(aClaim, "x"))
		a.apply(ns+"pods/w", volumePod("w", "a", "hello"))
		time.Sleep(time.Minute)
		_, out := a.get(ns + "pods/w")
		assert.Equal(t, "Pending", withVersion(out, "status", "phase"))
		assert.Contains(t, fmt.Sprint(out), "unbound immediate PersistentVolumeClaims")

		a.apply(ns+"pods/provisioner", provider)
		time.Sleep(time.Minute)
		_, out = a.get(ns + "pods/w")
		assert.Equal(t, "Succeeded", withVersion(out, "status", "phase"), out)
		a.apply(ns+"pods/r", volumePod("r", "b", ""))
		time.Sleep(time.Minute)
		_, out = a.get(ns + "pods/r")
		assert.Contains(t, fmt.Sprint(out), "hello", "what one pod wrote another reads, on another node")
		assert.Len(t, a.c.Names("persistentvolumes"), 1)
		a.do("DELETE", ns+"persistentvolumeclaims/c", "", "")
		time.Sleep(time.Minute)
		assert.Len(t, a.c.Names("persistentvolumes"), 1, "pods use it, be they at their end")
		a.do("DELETE", ns+"pods/w", "", "")
		a.do("DELETE", ns+"pods/r", "", "")
		time.Sleep(time.Minute)
		assert.Empty(t, a.c.Names("persistentvolumes"))
	})
}

// A claim grows if it is bound and its class says that it can, and is never smaller than its volume.
func TestSizeOfAClaim(t *testing.T) {
	bubble(t, func(t *testing.T, a api) {
		require.NoError(t, a.c.Join(t.Context(), volumeNode("a", 0)))
		for name, more := range map[string]string{"x": "", "y": `,"allowVolumeExpansion":true`} {
			a.apply("/apis/storage.k8s.io/v1/storageclasses/"+name, fmt.Sprintf(`{"apiVersion":"storage.k8s.io/v1","kind":"StorageClass","metadata":{"name":%q},"provisioner":"x.example"%s}`, name, more))
			a.apply(ns+"persistentvolumeclaims/"+name, strings.Replace(fmt.Sprintf(aClaim, name), `"c"`, `"`+name+`"`, 1))
		}
		size := func(claim, to string) (int, string) {
			code, out := a.do("PATCH", ns+"persistentvolumeclaims/"+claim, "application/merge-patch+json", `{"spec":{"resources":{"requests":{"storage":"`+to+`"}}}}`)
			return code, fmt.Sprint(out)
		}
		code, out := size("y", "2Gi")
		assert.Equal(t, http.StatusUnprocessableEntity, code)
		assert.Contains(t, out, "for bound claims")
		a.apply(ns+"pods/provisioner", provider)
		time.Sleep(time.Minute)
		code, out = size("x", "2Gi")
		assert.Equal(t, http.StatusForbidden, code)
		assert.Contains(t, out, `persistentvolumeclaims "x" is forbidden: only dynamically provisioned pvc can be resized`)
		code, out = size("y", "2Gi")
		assert.Equal(t, http.StatusOK, code, out)
		code, out = size("y", "1Gi")
		assert.Equal(t, http.StatusUnprocessableEntity, code)
		assert.Contains(t, out, "field can not be less than status.capacity")
	})
}

// A volume of K3s' local-path is on the disk of the node where its first pod runs,
// and no pod of another node can have it.
func TestLocalVolumeBelongsToANode(t *testing.T) {
	bubble(t, func(t *testing.T, a api) {
		for i, name := range []string{"a", "b"} {
			require.NoError(t, a.c.Join(t.Context(), volumeNode(name, i)))
		}
		a.apply(ns+"persistentvolumeclaims/c", fmt.Sprintf(aClaim, "local-path"))
		time.Sleep(time.Minute)
		_, out := a.get(ns + "persistentvolumeclaims/c")
		assert.Equal(t, "Pending", withVersion(out, "status", "phase"), "nobody uses it yet")
		a.apply(ns+"pods/w", volumePod("w", "a", "hello"))
		a.apply(ns+"pods/x", volumePod("x", "b", ""))
		time.Sleep(2 * time.Minute)
		_, w := a.get(ns + "pods/w")
		_, r := a.get(ns + "pods/x")
		phases := []any{withVersion(w, "status", "phase"), withVersion(r, "status", "phase")}
		assert.Contains(t, phases, "Succeeded")
		assert.Contains(t, phases, "Pending")
		assert.Contains(t, fmt.Sprint(w, r), "volume node affinity conflict")
	})
}

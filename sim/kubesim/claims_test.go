package kubesim_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/kubesim"
)

// provision makes the volume of a claim, as a provisioner whose turn it is.
func (p plane) provision(ctx context.Context, t *testing.T, claim *corev1.PersistentVolumeClaim) {
	t.Helper()
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pvc-" + string(claim.UID)}}
	pv.Spec.Capacity, pv.Spec.AccessModes, pv.Spec.StorageClassName = claim.Spec.Resources.Requests, claim.Spec.AccessModes, *claim.Spec.StorageClassName
	pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
	pv.Spec.HostPath = &corev1.HostPathVolumeSource{Path: "/v"}
	pv.Spec.ClaimRef = &corev1.ObjectReference{Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID}
	_, err := p.client.CoreV1().PersistentVolumes().Create(ctx, pv, metav1.CreateOptions{})
	require.NoError(t, err)
}

// TestFirstConsumer follows a claim from its pod to its end: the scheduler chooses the node, a
// client provisions, the pod is bound, and the claim goes when no pod uses it.
func TestFirstConsumer(t *testing.T) {
	alone(t, func(t *testing.T, p plane) {
		ctx, stop := context.WithCancel(t.Context())
		defer func() { stop(); synctest.Wait() }()
		p.node(t, "wk1")
		require.NoError(t, p.Apply(ctx, []byte(everything)))
		p.kubelets(ctx, t)
		claims, pods := p.client.CoreV1().PersistentVolumeClaims("default"), p.client.CoreV1().Pods("default")
		for _, name := range []string{"data-db-0", "data-db-1"} {
			time.Sleep(5 * time.Second)
			claim, err := claims.Get(ctx, name, metav1.GetOptions{})
			require.NoError(t, err)
			assert.Equal(t, "wk1", claim.Annotations["volume.kubernetes.io/selected-node"])
			assert.Equal(t, "nobody.example", claim.Annotations["volume.kubernetes.io/storage-provisioner"])
			pod, err := pods.Get(ctx, name[len("data-"):], metav1.GetOptions{})
			require.NoError(t, err)
			assert.Empty(t, pod.Spec.NodeName, "it waits for its volume")
			p.provision(ctx, t, claim)
		}
		time.Sleep(5 * time.Second)
		set, err := p.client.AppsV1().StatefulSets("default").Get(ctx, "db", metav1.GetOptions{})
		require.NoError(t, err)
		assert.EqualValues(t, 2, set.Status.ReadyReplicas)

		require.NoError(t, claims.Delete(ctx, "data-db-1", metav1.DeleteOptions{}))
		time.Sleep(5 * time.Second)
		claim, err := claims.Get(ctx, "data-db-1", metav1.GetOptions{})
		require.NoError(t, err)
		assert.NotNil(t, claim.DeletionTimestamp, "a pod uses it")
		_, err = p.client.AppsV1().StatefulSets("default").Patch(ctx, "db", types.MergePatchType, []byte(`{"spec":{"replicas":1}}`), metav1.PatchOptions{})
		require.NoError(t, err)
		time.Sleep(5 * time.Second)
		_, err = claims.Get(ctx, "data-db-1", metav1.GetOptions{})
		assert.True(t, apierrors.IsNotFound(err), err)
		pv, err := p.client.CoreV1().PersistentVolumes().Get(ctx, claim.Spec.VolumeName, metav1.GetOptions{})
		require.NoError(t, err)
		assert.Equal(t, corev1.VolumeReleased, pv.Status.Phase)
		require.NoError(t, p.client.CoreV1().PersistentVolumes().Delete(ctx, pv.Name, metav1.DeleteOptions{}))
		time.Sleep(5 * time.Second)
		_, err = p.client.CoreV1().PersistentVolumes().Get(ctx, pv.Name, metav1.GetOptions{})
		assert.True(t, apierrors.IsNotFound(err), err)
	})
}

// TestSilentNode is the fate of the pods of a node whose kubelet is silent, and of one that is
// deleted.
func TestSilentNode(t *testing.T) {
	alone(t, func(t *testing.T, p plane) {
		ctx, stop := context.WithCancel(t.Context())
		defer func() { stop(); synctest.Wait() }()
		p.node(t, "wk1")
		_, err := p.client.AppsV1().Deployments("default").Create(ctx, deployment(t), metav1.CreateOptions{})
		require.NoError(t, err)
		p.kubelets(ctx, t)
		time.Sleep(5 * time.Second)
		ready := func(status string) {
			_, err := p.client.CoreV1().Nodes().Patch(ctx, "wk1", types.StrategicMergePatchType, []byte(`{"status":{"conditions":[{"type":"Ready","status":"`+status+`"}]}}`), metav1.PatchOptions{}, "status")
			require.NoError(t, err)
			time.Sleep(time.Second)
		}
		taints := func() (out []string) {
			n, err := p.client.CoreV1().Nodes().Get(ctx, "wk1", metav1.GetOptions{})
			require.NoError(t, err)
			for _, taint := range n.Spec.Taints {
				out = append(out, taint.ToString())
			}
			return out
		}
		assert.Empty(t, taints())
		ready("Unknown")
		assert.Equal(t, []string{"node.kubernetes.io/unreachable:NoSchedule", "node.kubernetes.io/unreachable:NoExecute"}, taints())
		pods, err := p.client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
		require.NoError(t, err)
		require.Len(t, pods.Items, 3)
		assert.Equal(t, corev1.ConditionFalse, pods.Items[0].Status.Conditions[0].Status)
		ready("True")
		assert.Empty(t, taints())
		ready("False")
		time.Sleep(4 * time.Minute)
		again, err := p.client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
		require.NoError(t, err)
		assert.Equal(t, pods.Items[0].Name, again.Items[0].Name, "they are tolerated for five minutes")
		time.Sleep(2 * time.Minute)
		again, err = p.client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
		require.NoError(t, err)
		require.Len(t, again.Items, 3)
		for _, pod := range again.Items {
			assert.Empty(t, pod.Spec.NodeName, "evicted, and nowhere to go")
		}
	})
}

func TestOrphansOfANode(t *testing.T) {
	alone(t, func(t *testing.T, p plane) {
		ctx := t.Context()
		p.node(t, "wk1")
		_, err := p.client.AppsV1().Deployments("default").Create(ctx, deployment(t), metav1.CreateOptions{})
		require.NoError(t, err)
		time.Sleep(5 * time.Second)
		require.NoError(t, p.client.CoreV1().Nodes().Delete(ctx, "wk1", metav1.DeleteOptions{}))
		time.Sleep(2 * time.Minute)
		pods, err := p.client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=wk1"})
		require.NoError(t, err)
		assert.Empty(t, pods.Items)
	})
}

// TestFinalizers: an object goes with its last finalizer, an owner after those that it waits for.
func TestFinalizers(t *testing.T) {
	alone(t, func(t *testing.T, p plane) {
		ctx := t.Context()
		maps := p.client.CoreV1().ConfigMaps("default")
		held, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "held", Finalizers: []string{"a.example/hold"}}}, metav1.CreateOptions{})
		require.NoError(t, err)
		owned := func(name string) {
			_, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "v1", Kind: "ConfigMap", Name: "held", UID: held.UID}}}}, metav1.CreateOptions{})
			require.NoError(t, err)
		}
		owned("one")
		require.NoError(t, maps.Delete(ctx, "held", metav1.DeleteOptions{}))
		time.Sleep(time.Second)
		held, err = maps.Get(ctx, "held", metav1.GetOptions{})
		require.NoError(t, err)
		assert.NotNil(t, held.DeletionTimestamp)
		_, err = maps.Get(ctx, "one", metav1.GetOptions{})
		require.NoError(t, err, "its owner is still there")
		held.Finalizers = nil
		_, err = maps.Update(ctx, held, metav1.UpdateOptions{})
		require.NoError(t, err)
		time.Sleep(time.Second)
		_, err = maps.Get(ctx, "one", metav1.GetOptions{})
		assert.True(t, apierrors.IsNotFound(err), err)

		for policy, left := range map[metav1.DeletionPropagation]bool{metav1.DeletePropagationOrphan: true, metav1.DeletePropagationForeground: false} {
			held, err = maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "held"}}, metav1.CreateOptions{})
			require.NoError(t, err)
			owned("two")
			require.NoError(t, maps.Delete(ctx, "held", metav1.DeleteOptions{PropagationPolicy: &policy}))
			time.Sleep(time.Second)
			_, err = maps.Get(ctx, "held", metav1.GetOptions{})
			assert.True(t, apierrors.IsNotFound(err), err)
			_, err = maps.Get(ctx, "two", metav1.GetOptions{})
			assert.Equal(t, left, err == nil, policy)
			_ = maps.Delete(ctx, "two", metav1.DeleteOptions{})
		}
	})
}

// TestRestoredPlane: a control plane goes on from what another had saved.
func TestRestoredPlane(t *testing.T) {
	alone(t, func(t *testing.T, p plane) {
		ctx := t.Context()
		p.node(t, "wk1")
		require.NoError(t, p.Apply(ctx, []byte(widgets)))
		require.NoError(t, p.Apply(ctx, []byte("{apiVersion: example.com/v1, kind: Widget, metadata: {name: w}, spec: {size: 3}}")))
		_, err := p.client.AppsV1().Deployments("default").Create(ctx, deployment(t), metav1.CreateOptions{})
		require.NoError(t, err)
		time.Sleep(5 * time.Second)
		names := func(c *kubesim.Cluster) (out []string) {
			c.Each(func(resource string, obj map[string]any) {
				out = append(out, resource+" "+withVersion(obj, "metadata", "uid").(string))
			})
			return out
		}
		saved, err := p.Save(ctx)
		require.NoError(t, err)
		again, err := kubesim.NewPlane(ctx, guest.PlaneConfig{Saved: saved}, kubesim.Backends{})
		require.NoError(t, err)
		time.Sleep(5 * time.Second)
		assert.Equal(t, names(p.Cluster), names(again))
		require.NoError(t, again.Close())
	})
}

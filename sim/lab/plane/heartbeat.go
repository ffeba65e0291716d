package plane

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A kubelet renews its node's lease every ten seconds, and posts its status every five minutes or
// when it has changed (kubernetes, pkg/kubelet/apis/config/v1beta1/defaults.go).
const (
	look          = 400 * time.Millisecond
	leaseDuration = 40 * time.Second
	leaseInterval = leaseDuration / 4
	postInterval  = 5 * time.Minute
)

// beats are when a node's kubelet was last heard.
type beats struct{ lease, status time.Time }

// keepReady has each kubelet post that its node is Ready, and renew the node's lease.
func (k *kubelet) keepReady(ctx context.Context) {
	tick := time.NewTicker(look)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for _, m := range k.members() {
			if err := k.beat(ctx, m); err != nil && !apierrors.IsNotFound(err) && ctx.Err() == nil {
				k.log.Info("status of a node", "node", m.Name, "why", err)
			}
		}
	}
}

// beat writes what is due. A Node that was deleted while its kubelet runs is recreated at the
// kubelet's next start.
func (k *kubelet) beat(ctx context.Context, m *member) error {
	m.beating.Lock() // a kubelet that was stopped is not heard any more
	defer m.beating.Unlock()
	if now, up := k.member(m.Name); !up || now != m {
		return nil
	}
	node, err := k.objects.Get(m.Name)
	if err != nil {
		return err
	}
	now := time.Now()
	if now.Sub(m.last.lease) >= leaseInterval {
		if err := k.renew(ctx, node, now); err != nil {
			return err
		}
		m.last.lease = now
	}
	if nodeReady(node) && now.Sub(m.last.status) < postInterval {
		return nil
	}
	m.last.status = now
	_, err = patchNode(ctx, k.client, m.Name, map[string]any{"status": map[string]any{"conditions": conditionsOf(node, now)}}, "status")
	return err
}

func nodeReady(node *corev1.Node) bool {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// conditionsOf are those of a healthy node, in the kubelet's words (pkg/kubelet/nodestatus/setters.go).
func conditionsOf(node *corev1.Node, now time.Time) []corev1.NodeCondition {
	at := metav1.NewTime(now)
	all := []corev1.NodeCondition{
		{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasSufficientMemory", Message: "kubelet has sufficient memory available"},
		{Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasNoDiskPressure", Message: "kubelet has no disk pressure"},
		{Type: corev1.NodePIDPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasSufficientPID", Message: "kubelet has sufficient PID available"},
		{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", Message: "kubelet is posting ready status"},
	}
	for i := range all {
		all[i].LastHeartbeatTime, all[i].LastTransitionTime = at, at
		for _, old := range node.Status.Conditions {
			if old.Type == all[i].Type && old.Status == all[i].Status {
				all[i].LastTransitionTime = old.LastTransitionTime
			}
		}
	}
	return all
}

// renew renews the node's lease, by which the controller of nodes knows that its kubelet lives.
func (k *kubelet) renew(ctx context.Context, node *corev1.Node, now time.Time) error {
	leases := k.client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	lease, err := leases.Get(ctx, node.Name, metav1.GetOptions{})
	missing := apierrors.IsNotFound(err)
	if err != nil && !missing {
		return fmt.Errorf("lease: %w", err)
	}
	seconds, at := int32(leaseDuration/time.Second), metav1.NewMicroTime(now)
	spec := coordinationv1.LeaseSpec{HolderIdentity: &node.Name, LeaseDurationSeconds: &seconds, RenewTime: &at}
	if missing {
		_, err = leases.Create(ctx, &coordinationv1.Lease{Spec: spec, ObjectMeta: metav1.ObjectMeta{Name: node.Name, OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID},
		}}}, metav1.CreateOptions{})
	} else {
		lease.Spec = spec
		_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("lease: %w", err)
	}
	return nil
}

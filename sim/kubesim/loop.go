package kubesim

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// loop simulates all controllers, the scheduler and the kubelets: after every change, when
// something is due, and periodically because GPUs change without an event.
func (c *Cluster) loop(ctx context.Context) {
	timer := time.NewTimer(c.scale(lookAgain))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-c.kicked:
			// Changes come in bursts.
			timer.Reset(c.settle())
			select {
			case <-ctx.Done():
				return
			case <-timer.C:
			}
		}
		timer.Reset(c.reconcile())
	}
}

// reconcile does everything that is due, and returns when to come back.
func (c *Cluster) reconcile() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return time.Hour
	}
	now := time.Now()
	if c.bare() {
		c.next = now.Add(lookAgainBare)
		c.reconcileBare()
		return max(c.next.Sub(now), settleBare)
	}
	c.next = now.Add(c.scale(lookAgain))
	c.collect()
	pods := c.index()
	c.nodes(pods)
	c.daemonSets(pods)
	c.replicas(pods)
	c.jobs(pods)
	c.ephemeral()
	c.schedule(c.index())
	c.volumes()
	c.issue()
	c.share()
	c.gpuOperator()
	c.runPods()
	return max(c.next.Sub(now), c.scale(settle))
}

// settle is how long the loop waits for more after a change.
func (c *Cluster) settle() time.Duration {
	if c.bare() {
		return settleBare
	}
	return c.scale(settle)
}

// wake makes the loop come back at t, if nothing brings it back before.
func (c *Cluster) wake(t time.Time) {
	if t.Before(c.next) {
		c.next = t
	}
}

// podIndex finds pods by who owns them and by where they are.
type podIndex struct {
	byOwner map[string][]*entry // by UID of the controller
	onNode  map[string][]*entry
}

func (c *Cluster) index() podIndex {
	x := podIndex{byOwner: map[string][]*entry{}, onNode: map[string][]*entry{}}
	for _, e := range c.all("pods") {
		p := typed[corev1.Pod](e)
		if e.owner != "" {
			x.byOwner[e.owner] = append(x.byOwner[e.owner], e)
		}
		if p.Spec.NodeName != "" {
			x.onNode[p.Spec.NodeName] = append(x.onNode[p.Spec.NodeName], e)
		}
	}
	return x
}

// collect is the garbage collector: it removes objects whose owner is gone.
func (c *Cluster) collect() {
	uids := map[string]bool{}
	for _, m := range c.objects {
		for _, e := range m {
			uids[e.uid] = true
		}
	}
	var orphans []*entry
	for _, m := range c.objects {
		for _, e := range m {
			if e.owner != "" && !uids[e.owner] {
				orphans = append(orphans, e)
			}
		}
	}
	for _, e := range orphans {
		c.doom(e)
	}
}

// populate makes what K3s makes by itself.
func (c *Cluster) populate() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range []string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic, corev1.NamespaceNodeLease} {
		c.putTyped(mustKind("namespaces"), &corev1.Namespace{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelMetadataName: name}},
			Status:     corev1.NamespaceStatus{Phase: corev1.NamespaceActive},
		})
		c.putTyped(mustKind("serviceaccounts"), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default", Namespace: name}})
	}
	if !slices.Contains(c.cfg.Disable, "local-storage") {
		wait, del := storagev1.VolumeBindingWaitForFirstConsumer, corev1.PersistentVolumeReclaimDelete
		c.putTyped(mustKind("storageclasses"), &storagev1.StorageClass{
			ObjectMeta:  metav1.ObjectMeta{Name: "local-path", Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}},
			Provisioner: localPath, VolumeBindingMode: &wait, ReclaimPolicy: &del,
		})
	}
	if !slices.Contains(c.cfg.Disable, "traefik") {
		c.putTyped(mustKind("ingressclasses"), &networkingv1.IngressClass{ObjectMeta: metav1.ObjectMeta{Name: "traefik"},
			Spec: networkingv1.IngressClassSpec{Controller: "traefik.io/ingress-controller"}})
	}
	for _, name := range []string{"nvidia", "nvidia-experimental"} {
		c.putTyped(mustKind("runtimeclasses"), &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Handler: name})
	}
}

// Apply does what K3s does with a file of its manifests folder.
func (c *Cluster) Apply(ctx context.Context, manifest []byte) error {
	objs, err := documents(manifest)
	if err != nil {
		return err
	}
	for _, obj := range objs {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := c.applyManifest(obj); err != nil {
			return err
		}
	}
	return nil
}

// Package gpuoperator plays NVIDIA's GPU operator in the lab: while its pod is ready, it creates
// what its ClusterPolicy asks for, and deletes what it no longer asks for.
package gpuoperator

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/sim/gpuoperator"
	"github.com/cps-gpu/homelab/sim/lab/traffic"
)

// Operator is the operator's access to its cluster.
type Operator struct {
	Client  kubernetes.Interface
	Dynamic dynamic.Interface
	Log     *slog.Logger
}

// manager is the operator's name among the owners of fields.
const manager = "gpu-operator"

func policies() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "nvidia.com", Version: "v1", Resource: "clusterpolicies"}
}

func daemonSets() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "daemonsets"}
}

func runtimeClasses() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "node.k8s.io", Version: "v1", Resource: "runtimeclasses"}
}

// Run plays the operator until ctx ends.
func (o *Operator) Run(ctx context.Context) {
	const every = time.Second
	for converge.Pause(ctx, every) == nil {
		if err := o.reconcile(ctx); err != nil && ctx.Err() == nil {
			o.Log.Info("program", "program", manager, "why", err)
		}
	}
}

func (o *Operator) reconcile(ctx context.Context) error {
	namespace, err := o.namespace(ctx)
	if err != nil || namespace == "" {
		return err
	}
	list, err := o.Dynamic.Resource(policies()).List(ctx, metav1.ListOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("clusterpolicies: %w", err)
	}
	for i := range list.Items {
		if err := o.follow(ctx, &list.Items[i], namespace); err != nil {
			return err
		}
	}
	return nil
}

// namespace is that of the operator's pod, "" unless one is ready.
func (o *Operator) namespace(ctx context.Context) (string, error) {
	pods, err := o.Client.CoreV1().Pods("").List(ctx, metav1.ListOptions{LabelSelector: "app=gpu-operator"})
	if err != nil {
		return "", fmt.Errorf("pods: %w", err)
	}
	for i := range pods.Items {
		if traffic.Ready(&pods.Items[i]) {
			return pods.Items[i].Namespace, nil
		}
	}
	return "", nil
}

// follow makes the cluster what a policy asks for.
func (o *Operator) follow(ctx context.Context, policy *unstructured.Unstructured, namespace string) error {
	nodes, err := o.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: "nvidia.com/gpu.present=true"})
	if err != nil {
		return fmt.Errorf("nodes: %w", err)
	}
	var kernels, wanted []string
	for _, n := range nodes.Items {
		kernels = append(kernels, n.Status.NodeInfo.KernelVersion)
	}
	for _, u := range gpuoperator.NewPolicy(policy, namespace).Objects(kernels...) {
		var client dynamic.ResourceInterface = o.Dynamic.Resource(runtimeClasses())
		if u.GetKind() == "DaemonSet" {
			client = o.Dynamic.Resource(daemonSets()).Namespace(namespace)
			wanted = append(wanted, u.GetName())
		}
		if _, err := client.Apply(ctx, u.GetName(), u, metav1.ApplyOptions{FieldManager: manager, Force: true}); err != nil {
			return fmt.Errorf("%s %s: %w", u.GetKind(), u.GetName(), err)
		}
	}
	return o.prune(ctx, policy, namespace, wanted)
}

// prune deletes the policy's DaemonSets that it no longer asks for.
func (o *Operator) prune(ctx context.Context, policy *unstructured.Unstructured, namespace string, wanted []string) error {
	sets, err := o.Client.AppsV1().DaemonSets(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("daemonsets: %w", err)
	}
	for _, set := range sets.Items {
		owned := slices.ContainsFunc(set.OwnerReferences, func(r metav1.OwnerReference) bool { return r.UID == policy.GetUID() })
		if !owned || slices.Contains(wanted, set.Name) {
			continue
		}
		if err := o.Client.AppsV1().DaemonSets(namespace).Delete(ctx, set.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("daemonset %s: %w", set.Name, err)
		}
	}
	return nil
}

package harvester

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/kube"
)

// kind is a kind of object in a Harvester cluster.
type kind struct{ apiVersion, name string }

// The kinds that this package reads and writes.
const (
	kubevirtGroup  = "kubevirt.io/v1"
	harvesterGroup = "harvesterhci.io/v1beta1"
	devicesGroup   = "devices.harvesterhci.io/v1beta1"
	networkGroup   = "k8s.cni.cncf.io/v1"
)

func vmKind() kind       { return kind{kubevirtGroup, "VirtualMachine"} }
func instanceKind() kind { return kind{kubevirtGroup, "VirtualMachineInstance"} }
func imageKind() kind    { return kind{harvesterGroup, "VirtualMachineImage"} }
func settingKind() kind  { return kind{harvesterGroup, "Setting"} }
func addonKind() kind    { return kind{harvesterGroup, "Addon"} }
func deviceKind() kind   { return kind{devicesGroup, "PCIDevice"} }
func claimKind() kind    { return kind{devicesGroup, "PCIDeviceClaim"} }
func networkKind() kind  { return kind{networkGroup, "NetworkAttachmentDefinition"} }
func secretKind() kind   { return kind{"v1", "Secret"} }
func volumeKind() kind   { return kind{"v1", "PersistentVolumeClaim"} }
func podKind() kind      { return kind{"v1", "Pod"} }
func classKind() kind    { return kind{"storage.k8s.io/v1", "StorageClass"} }
func leaseKind() kind    { return kind{"coordination.k8s.io/v1", "Lease"} }

// Client makes the machines of one namespace. It is safe for concurrent use.
type Client struct {
	kube      *kube.Client
	namespace string
	owner     string
}

// New returns a client for what owner, the name of a cluster, has in a namespace of a Harvester cluster.
func New(k *kube.Client, namespace, owner string) *Client {
	return &Client{kube: k, namespace: namespace, owner: owner}
}

// Namespace is where the client's machines are.
func (c *Client) Namespace() string { return c.namespace }

// String names the namespace: "namespace a100 of Harvester".
func (c *Client) String() string { return "namespace " + c.namespace + " of Harvester" }

// object is an empty one of a kind, for reading it.
func (k kind) object(namespace, name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": k.apiVersion, "kind": k.name}}
	u.SetNamespace(namespace)
	u.SetName(name)
	return u
}

// read returns an object, or nil if there is none.
func (c *Client) read(ctx context.Context, k kind, namespace, name string) (*unstructured.Unstructured, error) {
	u := k.object(namespace, name)
	err := c.kube.Get(ctx, u)
	if errors.Is(err, kube.ErrNotFound) {
		return nil, nil
	}
	return u, err
}

// list returns the objects of a kind, none if the kind is not served.
func (c *Client) list(ctx context.Context, k kind, namespace string) ([]unstructured.Unstructured, error) {
	all, err := c.kube.List(ctx, k.apiVersion, k.name, namespace, "")
	var none *kube.NoKindError
	if errors.As(err, &none) {
		return nil, nil
	}
	return all, err
}

// decode reads an object into a struct with the fields that matter.
func decode[T any](u *unstructured.Unstructured) (T, error) {
	var out T
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &out); err != nil {
		return out, fmt.Errorf("%s: %w", kube.RefOf(u), err)
	}
	return out, nil
}

// condition is one of an object's, as Kubernetes and Harvester write them.
type condition struct {
	Type    string                 `json:"type"`
	Status  metav1.ConditionStatus `json:"status"`
	Reason  string                 `json:"reason"`
	Message string                 `json:"message"`
}

func find(all []condition, kind string) condition {
	for _, c := range all {
		if c.Type == kind {
			return c
		}
	}
	return condition{}
}

// set puts a value at a path of nested mappings, making those that are missing.
func set(u *unstructured.Unstructured, value any, path ...string) error {
	if err := unstructured.SetNestedField(u.Object, value, path...); err != nil {
		return fmt.Errorf("%s: %w", kube.RefOf(u), err)
	}
	return nil
}

// foreignError is the error for an object that has the name of one of ours.
func foreignError(u *unstructured.Unstructured, cure string) error {
	return converge.Permanent(fmt.Errorf("%s exists and is not ours: %s", kube.RefOf(u), cure))
}

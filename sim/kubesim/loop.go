package kubesim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	yamlutil "k8s.io/apimachinery/pkg/util/yaml"
)

// loop runs the controllers, the scheduler and what is played: after every change, when something
// is due, and periodically because GPUs change without an event.
func (c *Cluster) loop(ctx context.Context) {
	timer := time.NewTimer(c.again)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-c.kicked:
			// Changes come in bursts.
			timer.Reset(c.settle)
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
	c.next = now.Add(c.again)
	if c.plays {
		c.machines.nodes()
	}
	c.namespaces()
	c.garbage()
	c.control.Run()
	c.scheduler().Run()
	c.budgets()
	c.forgetEvents()
	if c.plays {
		c.machines.provision()
		c.machines.issue()
		c.machines.share()
		c.machines.gpuOperator()
		c.machines.ciliumOperator()
		c.machines.publishDevices()
		c.machines.runPods()
	}
	return max(c.next.Sub(now), c.settle)
}

// wake makes the loop come back at t, if nothing brings it back before.
func (c *Cluster) wake(t time.Time) {
	if t.Before(c.next) {
		c.next = t
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

// documents reads a manifest of several YAML documents.
func documents(manifest []byte) ([]map[string]any, error) {
	var out []map[string]any
	d := yamlutil.NewYAMLOrJSONDecoder(bytes.NewReader(manifest), 4096)
	for {
		var m map[string]any
		if err := d.Decode(&m); errors.Is(err, io.EOF) {
			return out, nil
		} else if err != nil {
			return nil, fmt.Errorf("manifest: %w", err)
		}
		if len(m) > 0 {
			out = append(out, m)
		}
	}
}

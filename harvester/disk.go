package harvester

import (
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cps-gpu/homelab/converge"
)

// changeDisks adds the disks that are missing and grows the others. Harvester makes and grows the volumes.
func (c builder) changeDisks(u *unstructured.Unstructured, s VMSpec, vm *VM, w world) error {
	annotations := u.GetAnnotations()
	var templates []map[string]any // as they are: other fields than ours stay
	if text := annotations[templatesAnnotation]; text != "" {
		if err := json.Unmarshal([]byte(text), &templates); err != nil {
			return fmt.Errorf("annotation %s: %w", templatesAnnotation, err)
		}
	}
	volumes, _, err := unstructured.NestedSlice(u.Object, "spec", "template", "spec", "volumes")
	if err != nil {
		return err
	}
	disks, _, err := unstructured.NestedSlice(u.Object, inDomain("devices", "disks")...)
	if err != nil {
		return err
	}
	for i, d := range s.Disks {
		name := claimName(s.Name, d.Name)
		at := slices.IndexFunc(templates, func(t map[string]any) bool { return fieldAt(t, "metadata", "name") == name })
		switch {
		case at < 0 && vm != nil && slices.ContainsFunc(vm.Disks, func(h Disk) bool { return h.Name == d.Name }):
			return converge.Permanent(fmt.Errorf("%s: disk %s is a volume that Harvester did not make for it, which is not changed", vm, d.Name))
		case at < 0:
			t, err := c.template(s, i, w)
			if err != nil {
				return err
			}
			templates = append(templates, t)
			volumes = append(volumes, map[string]any{"name": d.Name, "persistentVolumeClaim": map[string]any{"claimName": name}})
			disks = append(disks, newDisk(d, i))
		default:
			if err := grow(templates[at], d.Size); err != nil {
				return err
			}
			serial(disks, d)
		}
	}
	if vm == nil {
		secret := map[string]any{"name": secretName(s.Name)}
		volumes = append(volumes, map[string]any{"name": cloudInitDisk, "cloudInitNoCloud": map[string]any{"secretRef": secret, "networkDataSecretRef": secret}})
		disks = append(disks, map[string]any{"name": cloudInitDisk, "disk": map[string]any{"bus": "virtio"}})
	}
	text, err := json.Marshal(templates)
	if err != nil {
		return err
	}
	annotations[templatesAnnotation] = string(text)
	u.SetAnnotations(annotations)
	if err := set(u, volumes, "spec", "template", "spec", "volumes"); err != nil {
		return err
	}
	return set(u, disks, inDomain("devices", "disks")...)
}

func newDisk(d Disk, i int) map[string]any {
	out := map[string]any{"name": d.Name, "disk": map[string]any{"bus": "virtio"}}
	if d.Serial != "" {
		out["serial"] = d.Serial
	}
	if i == 0 {
		out["bootOrder"] = int64(1)
	}
	return out
}

// serial sets a disk's serial number.
func serial(disks []any, d Disk) {
	for _, have := range disks {
		if m, ok := have.(map[string]any); ok && m["name"] == d.Name && d.Serial != "" {
			m["serial"] = d.Serial
		}
	}
}

// template is the volume that Harvester makes for a disk.
func (c builder) template(s VMSpec, i int, w world) (map[string]any, error) {
	d := s.Disks[i]
	annotations := c.annotations(s.Name)
	name := d.StorageClass
	if i == 0 {
		name = w.image.StorageClass
		annotations[imageAnnotation] = c.qualify(s.Image)
	}
	sc, ok := w.classes[name]
	if !ok {
		return nil, fmt.Errorf("machine %s: disk %s: there is no storage class %q", s.Name, d.Name, name)
	}
	mode := "ReadWriteOnce"
	if sc.migrating {
		mode = "ReadWriteMany"
	}
	return map[string]any{
		"metadata": map[string]any{"name": claimName(s.Name, d.Name), "labels": c.labels(), "annotations": annotations},
		"spec": map[string]any{
			"accessModes": []any{mode}, "volumeMode": "Block", "storageClassName": sc.name,
			"resources": map[string]any{"requests": map[string]any{"storage": quantityText(d.Size)}},
		},
	}, nil
}

// grow raises a volume's size.
func grow(template map[string]any, to Size) error {
	if have, _ := fieldAt(template, "spec", "resources", "requests", "storage").(string); quantity(have) >= to {
		return nil
	}
	return unstructured.SetNestedField(template, quantityText(to), "spec", "resources", "requests", "storage")
}

// fieldAt is what is at a path of mappings, or nil.
func fieldAt(v any, path ...string) any {
	for _, k := range path {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[k]
	}
	return v
}

package images

import (
	"maps"
	"regexp"
	"strings"
)

// References returns the images that an object of Kubernetes names, in full: those of its pods, those that custom
// resources of operators have (image, or repository, image and version), and those that a program is told by
// arguments, variables and configuration to start later.
func References(object map[string]any) []string {
	if object["kind"] == "CustomResourceDefinition" { // full of examples
		return nil
	}
	f := finder{}
	if data, ok := object["data"].(map[string]any); ok && object["kind"] == "ConfigMap" {
		for _, text := range data {
			f.text(text)
		}
	}
	if object["kind"] == "ClusterPolicy" {
		object = inUse(object)
	}
	f.walk(object)
	return f.found
}

type finder struct{ found []string }

func (f *finder) walk(v any) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			f.walk(e)
		}
	case map[string]any:
		if v["enabled"] == false {
			return // of an operator's part that does not run
		}
		if name, ok := v["image"].(string); ok {
			f.add(join(v, name))
		}
		for key, value := range v {
			switch list, _ := value.([]any); key {
			case "args", "command":
				for _, arg := range list {
					f.text(arg)
				}
			case "env":
				for _, e := range list {
					variable, _ := e.(map[string]any)
					f.text(variable["value"])
				}
			}
			f.walk(value)
		}
	}
}

// join puts an image together from what stands beside it, as NVIDIA's operator does (ImagePath,
// internal/image/image.go).
func join(v map[string]any, name string) string {
	repository, _ := v["repository"].(string)
	version, _ := v["version"].(string)
	switch {
	case name == "" || repository == "" || version == "":
		return name
	case strings.HasPrefix(version, "sha256:"):
		return repository + "/" + name + "@" + version
	}
	return repository + "/" + name + ":" + version
}

func (f *finder) add(name string) {
	if reference.MatchString(name) {
		f.found = append(f.found, Full(name))
	}
}

func (f *finder) text(v any) {
	text, _ := v.(string)
	for _, m := range mention.FindAllStringSubmatch(text, -1) {
		f.add(m[1])
	}
}

const (
	path    = `[a-z0-9]+(?:[._-]+[a-z0-9]+)*(?:/[a-z0-9]+(?:[._-]+[a-z0-9]+)*)*`
	host    = `[a-z0-9-]+(?:\.[a-z0-9-]+)+(?::[0-9]+)?`
	tag     = `:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}`
	digest  = `@sha256:[a-f0-9]{64}`
	starts  = `(?:^|[\s="',])`
	ends    = `(?:$|[\s"',])`
	numbers = `:v?[0-9]+[.][A-Za-z0-9_.-]*` // a tag that cannot be a port or a label's value
)

var (
	reference = regexp.MustCompile(`^(?:` + host + `/|localhost(?::[0-9]+)?/)?` + path + `(?:` + tag + `)?(?:` + digest + `)?$`)
	// mention is an image in a text: one with a registry and a tag or digest, or one of Docker Hub with a version.
	mention = regexp.MustCompile(`(?m)` + starts + `(` + host + `/` + path + `(?:` + tag + `|` + tag + digest + `|` + digest + `)|[a-z0-9-]+/` + path + numbers + `)` + ends)
)

// Full is a name with its registry and tag: busybox is docker.io/library/busybox:latest.
func Full(name string) string {
	first, _, nested := strings.Cut(name, "/")
	switch {
	case !nested:
		name = "docker.io/library/" + name
	case !strings.ContainsAny(first, ".:") && first != "localhost":
		name = "docker.io/" + name
	}
	if last := name[strings.LastIndex(name, "/"):]; !strings.ContainsAny(last, ":@") {
		name += ":latest"
	}
	return name
}

// Digest is that of a name that has one, else empty.
func Digest(name string) string {
	_, d, _ := strings.Cut(name, "@")
	return d
}

// forSystem is a part of which there is an image for each system: the operator appends that of the node
// (GetImagePath, api/nvidia/v1alpha1/nvidiadriver_types.go). With us it runs on Ubuntu 24.04 alone.
func forSystem(v any) any {
	part, _ := v.(map[string]any)
	version, _ := part["version"].(string)
	if version == "" || strings.HasPrefix(version, "sha256:") {
		return v
	}
	part = maps.Clone(part)
	part["version"] = version + "-ubuntu24.04"
	return part
}

// inUse is a ClusterPolicy of NVIDIA's operator without the parts for virtual machines, unless it has
// sandboxWorkloads: those have no switch that is off (clusterpolicy.yaml of its chart).
func inUse(policy map[string]any) map[string]any {
	spec, _ := policy["spec"].(map[string]any)
	if sandbox, _ := spec["sandboxWorkloads"].(map[string]any); sandbox["enabled"] == true {
		return policy
	}
	used := map[string]any{}
	for key, v := range spec {
		switch key {
		case "vgpuManager", "vgpuDeviceManager", "vfioManager", "kataManager", "ccManager", "sandboxDevicePlugin", "kataSandboxDevicePlugin":
		case "driver", "gds", "gdrcopy":
			used[key] = forSystem(v)
		default:
			used[key] = v
		}
	}
	return map[string]any{"spec": used}
}

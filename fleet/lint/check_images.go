package lint

import (
	"strings"

	"github.com/cps-gpu/homelab/internal/yamlnode"
)

// checkImages: an image without a tag, or with a moving one, changes over time.
func (l objectCheck) checkImages() {
	for _, b := range l.bundles {
		scanned := len(b.YAML.ImageScans) > 0 // Fleet writes the tags into the repository
		for _, o := range b.objects {
			if !scanned {
				l.images(o, podSpec(o))
			}
		}
	}
}

// podSpec is the path of an object's containers.
func podSpec(o *lintObject) *yamlnode.Node {
	switch o.kind {
	case "Pod":
		return o.node.Get("spec")
	case "CronJob":
		return o.node.Get("spec", "jobTemplate", "spec", "template", "spec")
	case "Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job", "ReplicationController":
		return o.node.Get("spec", "template", "spec")
	}
	return nil
}

func (l objectCheck) images(o *lintObject, spec *yamlnode.Node) {
	for _, key := range []string{"initContainers", "containers"} {
		for _, c := range spec.Get(key).List() {
			n := c.Get("image")
			switch why := floats(n.Str()); {
			case n.Str() == "" || why == "":
			default:
				l.add("image-unpinned", o.file.name, n.At, "%s: image %s %s", o, n.Str(), why)
			}
		}
	}
}

// floats says why an image is not always the same; "" if it is.
func floats(image string) string {
	if strings.ContainsAny(image, "{$") || strings.Contains(image, "@sha256:") {
		return ""
	}
	last := image[strings.LastIndexByte(image, '/')+1:]
	_, tag, ok := strings.Cut(last, ":")
	switch {
	case !ok:
		return "has no tag, which means latest"
	case tag == "latest":
		return "can be another image at each pull"
	}
	return ""
}

package lint

import (
	"strings"
)

// checkImages: an image without a tag, or with one that moves, is another tomorrow.
func (l *linter) checkImages() {
	for _, b := range l.bundles {
		scanned := len(b.YAML.ImageScans) > 0 // Fleet writes the tags into the repository
		for _, o := range b.objects {
			if !scanned {
				l.images(o, podSpec(o))
			}
		}
	}
}

// podSpec is where an object's containers are.
func podSpec(o *lintObject) *lintNode {
	switch o.kind {
	case "Pod":
		return o.node.get("spec")
	case "CronJob":
		return o.node.get("spec", "jobTemplate", "spec", "template", "spec")
	case "Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job", "ReplicationController":
		return o.node.get("spec", "template", "spec")
	}
	return nil
}

func (l *linter) images(o *lintObject, spec *lintNode) {
	for _, key := range []string{"initContainers", "containers"} {
		for _, c := range spec.get(key).list() {
			n := c.get("image")
			switch why := floats(n.str()); {
			case n.str() == "" || why == "":
			default:
				l.add("image-unpinned", o.file.name, n.at, "%s: image %s %s", o, n.str(), why)
			}
		}
	}
}

// floats says why an image is not always the same, "" where it is.
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
		return "is whatever latest is when a node pulls it"
	}
	return ""
}

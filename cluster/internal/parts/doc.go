// Package parts makes the steps that bring the parts of the platform, storage to the hub:
// by Helm, as plain objects, or through Git and Fleet. It also records what belongs to a
// part, so that one that the file no longer names can be removed.
package parts

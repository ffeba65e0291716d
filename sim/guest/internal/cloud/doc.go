// Package cloud is cloud-init: four stages in which a seed's user-data is obeyed, and the
// status that it tells. It reads the seed by its own rules, written from the documentation.
package cloud

// Package yamlvalue reads values of YAML whose kind the author of the file has chosen.
package yamlvalue

// Package chart is a Helm release as a value.
package chart

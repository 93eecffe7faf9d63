// Package drawing makes the pictures of docs/pictures from data that stands here: the
// durations are those of the core, and the screen of rota up is laid out by rota up.
package drawing

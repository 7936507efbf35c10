"""Hooks for agent frameworks, a small module each. They record completed tool calls as steps, add up usage, and see what
frameworks keep to themselves: tool errors returned as text, answers cut off, caps on iterations, provider errors that
became an answer. Nothing here is imported by `redrive` itself."""

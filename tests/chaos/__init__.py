"""Kills a real daemon at named points and at random, and checks from the outside that nothing promised was lost."""

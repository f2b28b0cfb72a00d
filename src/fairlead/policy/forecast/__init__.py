"""Predicted durations: which jobs are alike, and a model of how long they run, learnt while the run goes on."""

from fairlead.policy.forecast.forecaster import FORECAST_PARAMETERS, Forecaster, Labels

__all__ = ["FORECAST_PARAMETERS", "Forecaster", "Labels"]

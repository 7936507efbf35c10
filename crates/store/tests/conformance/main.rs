//! One suite for every store. A case is a function over a [`World`]; each store runs every case of the list below.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    unreachable_pub,
    dead_code,
    reason = "a case that can't go on fails; the world is shared with other suites"
)]

mod breakers;
mod corrupt_rows;
mod decisions;
mod engine;
mod fencing;
mod fixes;
mod freezes;
mod leases;
mod ledger;
mod operation_guards;
mod operations;
mod pages;
mod patterns;
mod queue_rules;
mod reads;
mod reconciling;
mod reports;
mod reviews;
mod sent;
mod starts;
mod tenant_names;
mod triage;
mod verbs;
mod workers;
mod world;

use world::World;

/// The list of cases. Each store passes a macro that makes a test of each.
macro_rules! every_case {
    ($test:ident) => {
        $test! {
            reports::first_report_is_judged_stored_and_answered,
            reports::optional_columns_survive_mixed_batches,
            reports::repeated_report_gets_the_stored_answer,
            reports::different_report_of_the_same_attempt_is_a_conflict,
            reports::unnumbered_repeat_is_a_resend_until_the_retry_is_due,
            reports::gaps_in_attempts_count_towards_the_budget,
            reports::failure_beyond_the_maximum_attempt_changes_nothing,
            reports::maximum_attempt_is_never_followed_by_another,
            reports::a_caller_cannot_succeed_past_the_last_attempt,
            reports::fix_beyond_the_maximum_revision_is_refused,
            reports::a_failure_reopens_a_closed_run,
            reports::a_payload_comes_back_byte_for_byte,
            reports::omitted_payload_is_rejected_where_workers_retry,
            reports::resend_window_ends_when_the_retry_is_due,
            reports::a_run_without_payload_is_dead_wherever_workers_retry,
            reports::switching_a_queue_to_workers_rejects_runs_without_payload,
            reports::sixty_four_concurrent_reports_are_recorded_once,
            reports::new_pattern_is_new_once_and_counted_per_tenant,
            reports::resend_after_a_successful_retry_reopens_nothing,
            starts::enqueuing_again_returns_no_lease,
            starts::repeated_start_id_returns_the_same_lease,
            starts::scheduled_run_starts_only_when_due,
            starts::a_caller_may_start_before_the_due_time,
            starts::a_dead_run_refuses_a_start_with_its_verdict,
            starts::a_closed_run_answers_with_its_output_and_no_lease,
            starts::another_payload_under_the_same_run_is_a_conflict,
            sent::sent_payload_is_stored_beside_the_original,
            sent::expired_lease_stores_no_sent_payload,
            sent::released_attempt_records_the_latest_sent_payload,
            sent::repeated_start_gets_the_same_payload,
            sent::another_tenants_attempt_is_not_found,
            pages::attempts_are_paged_from_the_newest,
            pages::history_pages_hold_every_entry_once,
            pages::steps_are_paged_by_count_and_by_bytes,
            pages::large_attempts_make_small_pages,
            pages::a_cursor_of_another_run_or_list_is_refused,
            pages::outputs_of_steps_count_in_a_lease_answer,
            pages::outputs_of_one_run_are_stored_up_to_a_limit,
            pages::reconciled_outputs_count_in_the_limit,
            sent::an_attempt_number_never_reaches_another_run,
            sent::changes_that_need_the_last_error_get_it,
            sent::run_that_can_never_fit_is_dead_at_once,
            sent::reading_a_queues_policy_creates_no_queue,
            leases::small_tenant_is_not_starved_by_ten_thousand_runs,
            leases::turns_continue_where_the_last_call_stopped,
            leases::runs_of_one_order_key_execute_one_by_one,
            leases::queue_named_thrice_leases_each_run_once,
            leases::an_agent_gets_only_what_it_can_do,
            leases::lease_answer_is_bounded_but_never_empty,
            leases::fixed_payload_counts_with_its_current_length,
            leases::a_queue_whose_caller_retries_is_never_leased,
            leases::the_same_request_gets_the_same_leases_while_they_live,
            leases::request_id_is_known_within_its_scope_only,
            leases::runs_without_payload_starve_nobody,
            leases::a_tenant_without_work_for_the_caller_starves_nobody,
            leases::the_same_order_key_in_two_tenants_does_not_wait,
            leases::due_order_holds_across_queues,
            leases::due_order_holds_across_a_hundred_queues,
            leases::a_run_behind_five_thousand_for_another_agent_is_found,
            leases::a_busy_order_key_hides_nothing_behind_five_thousand,
            leases::runs_freed_at_the_front_are_found_under_load,
            leases::concurrent_calls_of_two_agents_get_their_own_runs,
            starts::an_order_key_holds_for_starts_too,
            starts::an_early_begin_ends_a_deferral,
            starts::an_enqueued_run_without_payload_is_a_dead_letter,
            breakers::failing_attempts_open_a_breaker_and_hold_due_runs,
            breakers::half_open_breaker_admits_one_of_a_hundred,
            breakers::a_crashed_probe_frees_the_slot,
            breakers::untaken_probe_offer_goes_to_another_run,
            breakers::a_thousand_unserved_runs_do_not_block_their_breaker,
            breakers::deferred_probe_offer_goes_to_another_run,
            breakers::released_probe_goes_to_another_run,
            breakers::a_tenants_many_names_share_a_breaker,
            breakers::quiet_breakers_are_forgotten,
            breakers::late_success_counts_its_attempt_once,
            breakers::retry_on_another_model_counts_for_that_model,
            breakers::a_cancelled_probe_frees_the_slot,
            breakers::late_results_and_other_tenants_failures_move_nothing,
            breakers::attempt_begun_before_a_restart_counts_in_its_generation,
            breakers::stale_results_do_not_count_after_a_restart,
            breakers::repeated_report_gets_the_breaker_state_of_then,
            freezes::breaker_history_is_kept_for_a_season,
            freezes::failures_outside_the_window_are_not_shown,
            breakers::reports_in_one_call_are_held_but_never_counted,
            breakers::an_open_breaker_delays_nobody_else,
            breakers::outage_across_tenants_is_one_breaker,
            breakers::environments_have_their_own_breakers,
            freezes::freeze_holds_replays_and_expires,
            freezes::a_replay_passes_an_open_breaker_and_the_plan_warns,
            breakers::a_held_run_refuses_a_start_and_a_caller_passes,
            breakers::released_holds_alternate_tenants_and_spread_out,
            breakers::a_restart_keeps_breakers_windows_and_holds,
            freezes::a_tenant_at_its_limit_is_passed_over,
            freezes::other_tenants_running_attempts_do_not_count,
            workers::a_heartbeat_renews_and_a_late_one_is_refused,
            workers::many_heartbeats_renew_each_lease_or_refuse_it,
            workers::success_recovers_a_run_that_had_failed,
            workers::repeated_ending_gets_the_stored_answer,
            workers::different_ending_under_an_ended_lease_is_a_conflict,
            workers::a_second_late_success_does_not_replace_the_first,
            workers::old_epoch_changes_nothing_through_any_verb,
            workers::lease_with_a_forged_number_changes_nothing,
            workers::late_success_counts_until_a_newer_attempt_begins,
            workers::success_beats_the_rescuer_that_read_before_it,
            workers::a_late_failure_is_kept_as_evidence,
            workers::cut_evidence_of_a_late_failure_is_marked,
            workers::key_lineage_keeps_access_to_its_own_runs,
            workers::released_attempt_keeps_its_number_and_waits_longer,
            workers::the_twentieth_release_in_a_row_is_a_failure,
            workers::failure_resets_the_count_of_releases,
            workers::cancelled_worker_learns_of_it_and_may_still_succeed,
            workers::committed_step_is_returned_and_open_effect_is_unknown,
            workers::an_effect_key_open_in_another_run_is_refused,
            workers::one_of_three_concurrent_calls_begins_an_effect,
            workers::same_call_id_recovers_a_lost_answer,
            workers::only_the_call_that_began_an_effect_fails_it,
            workers::a_plain_step_that_becomes_an_effect_is_guarded,
            workers::step_and_effect_under_one_key_are_guarded,
            workers::enqueuing_a_known_run_returns_its_state,
            workers::worker_sees_only_its_own_outputs,
            workers::each_lease_of_a_run_has_a_new_token,
            workers::effect_outcome_is_recorded_after_the_lease_ended,
            workers::a_caller_reports_success_without_a_lease,
            ledger::full_ledger_refuses_intents_and_drops_steps,
            ledger::effect_beyond_the_step_limit_is_unknown,
            ledger::ending_beyond_the_step_limit_is_recorded,
            ledger::second_unnamed_effect_is_a_new_entry,
            ledger::unnamed_effects_of_a_replay_match_in_order,
            ledger::unnamed_non_ascii_steps_have_their_own_entries,
            ledger::repeated_unnamed_call_is_the_same_entry,
            ledger::repeated_unnamed_outcome_is_the_same_entry,
            ledger::unnamed_steps_of_an_ending_match_by_position,
            ledger::failed_effect_frees_its_key,
            ledger::effect_unknown_in_another_run_may_not_begin,
            ledger::reporting_another_runs_effect_guards_the_reporter,
            ledger::plain_step_reported_as_effect_is_guarded,
            ledger::own_finished_effect_wins_over_another_runs,
            ledger::unspecified_step_keeps_its_kind_or_is_an_effect,
            ledger::effects_reported_with_an_ending_are_guarded_everywhere,
            ledger::released_run_with_a_done_effect_is_unsafe,
            ledger::replay_under_other_versions_reports_the_change,
            fencing::old_epoch_settles_only_what_it_began,
            fencing::late_ending_still_records_outcomes_of_its_effects,
            fencing::forged_lease_settles_nothing,
            fencing::a_lease_of_epoch_zero_settles_nothing,
            fencing::a_late_outcome_leaves_the_key_with_its_new_holder,
            fencing::lease_of_another_run_changes_neither_run,
            fencing::late_unnamed_effects_settle_in_start_order,
            fencing::late_outcome_enters_the_history_without_moving_the_run,
            reconciling::reconciled_effect_is_skipped_by_the_replay,
            reconciling::reconciliation_and_worker_reports_keep_their_order,
            reconciling::effect_reconciled_as_not_done_can_start_again,
            reconciling::only_unknown_effects_are_reconciled_and_once,
            reconciling::unnamed_effect_is_found_through_its_run,
            reconciling::check_under_a_live_lease_settles_an_unknown_effect,
            reconciling::worker_outcome_overrides_a_mistaken_reconciliation,
            reconciling::another_tenants_effect_is_not_found,
            reconciling::lookup_prefers_the_keys_holder_over_previous_owners,
            triage::a_replay_gives_a_fresh_budget,
            triage::closed_runs_open_only_by_force,
            triage::effects_guard_a_replay,
            triage::triage_history_names_actor_and_reason,
            triage::replays_are_capped,
            fixes::fix_is_a_new_revision_of_an_immutable_original,
            fixes::a_fix_made_from_another_revision_is_refused,
            fixes::supplied_payload_makes_a_run_replayable,
            fixes::replay_can_change_agent_queue_model_and_instruction,
            fixes::replay_from_a_step_repeats_steps_but_no_effects,
            fixes::replay_of_an_outdated_plan_returns_the_current_one,
            fixes::plan_warns_of_versions_workers_no_longer_run,
            fixes::a_plan_knows_only_workers_that_serve_its_tenant,
            fixes::a_plan_warns_of_its_own_tenants_order_key_only,
            fixes::failed_replays_keep_history_and_park_past_the_cap,
            reviews::approved_replay_runs_as_requested,
            reviews::approval_of_one_plan_covers_no_other,
            reviews::review_without_a_decision_expires,
            reviews::late_approval_expires_the_review,
            reviews::downtime_does_not_expire_a_review,
            reviews::requester_cannot_approve_without_force,
            reviews::rejection_leaves_the_run_unchanged,
            reviews::one_person_requests_review_and_another_decides,
            reviews::force_passes_guards_but_not_approval,
            reviews::only_force_replaces_a_forced_request,
            reviews::approval_by_severity_covers_that_level_and_above,
            tenant_names::a_failure_beyond_the_queue_limit_goes_to_default,
            tenant_names::a_start_beyond_the_queue_limit_is_refused,
            tenant_names::a_reason_beyond_the_limit_counts_as_other,
            tenant_names::another_tenants_queue_looks_absent,
            tenant_names::wildcard_queue_covers_all_queues_of_a_tenant,
            verbs::every_verb_in_every_state_moves_or_explains_refusal,
            verbs::assignee_is_shown_and_searchable,
            verbs::reassigned_run_is_leased_and_counted_in_its_new_queue,
            verbs::deferred_run_is_hidden_until_due,
            verbs::failure_of_a_merged_run_counts_for_its_target,
            verbs::unmerging_takes_back_the_steps,
            verbs::merges_stay_within_a_tenant_and_are_reversible,
            verbs::duplicates_share_a_key_or_payload_and_failure,
            operations::each_item_passes_the_guard_of_the_single_verb,
            operations::bulk_actions_equal_single_verbs_in_every_state,
            operations::start_moves_exactly_the_previewed_set,
            operations::outcomes_are_counted_and_end_the_operation,
            operations::unsettled_items_do_not_delay_the_end,
            operations::failed_canary_stops_the_rest_and_names_new_failures,
            operations::passed_canary_releases_the_rest,
            operations::finished_canary_waits_while_the_operation_is_paused,
            operations::a_canary_without_an_outcome_in_time_has_failed,
            operations::pause_resume_and_cancel_apply_from_the_next_batch,
            operations::nothing_moves_after_a_cancel_is_answered,
            operations::a_rate_is_kept,
            operations::bulk_patch_previews_and_changes_every_payload,
            operations::listed_runs_move_once_and_missing_ones_are_counted,
            operations::one_replica_at_a_time_works_an_operation,
            operations::large_set_freezes_in_pieces_before_anything_moves,
            operations::item_pages_show_each_item_once,
            operation_guards::run_replayed_during_the_freeze_is_skipped,
            operation_guards::a_run_that_no_longer_matches_is_skipped,
            operation_guards::a_decision_since_the_freeze_skips_the_item,
            operation_guards::an_assignment_since_the_freeze_is_kept,
            operation_guards::a_payload_edited_since_the_freeze_is_not_moved,
            operation_guards::rounds_at_the_same_time_move_each_item_once,
            operation_guards::broken_operation_blocks_no_other,
            operation_guards::an_operation_continues_at_once_after_a_restart,
            operation_guards::a_dead_replicas_claim_ends_within_two_seconds,
            operation_guards::a_canary_items_outcome_is_its_first_attempts,
            operation_guards::a_canary_item_that_recovers_on_a_retry_has_failed,
            operation_guards::a_canary_item_without_an_outcome_in_time_stays_failed,
            operation_guards::pausing_again_and_again_does_not_stop_a_slow_operation,
            queue_rules::replay_into_another_queue_needs_its_own_queues_approval,
            queue_rules::a_reassigned_run_needs_the_approval_of_where_it_died,
            queue_rules::a_waiting_replay_is_not_reassigned_past_an_approval,
            queue_rules::a_fix_needs_the_approval_of_where_its_run_waited,
            queue_rules::what_waits_for_a_decision_is_not_reassigned,
            queue_rules::an_approved_replay_is_not_given_to_another_agent,
            queue_rules::a_replay_cap_holds_in_every_queue_since_the_death,
            queue_rules::past_many_queues_a_replay_always_needs_an_approval,
            queue_rules::bulk_replays_and_reassignments_obey_the_same_queues,
            queue_rules::a_plan_looked_at_without_force_is_not_forced,
            queue_rules::a_forced_review_shows_the_hash_that_approves_it,
            queue_rules::a_merge_taken_back_leaves_a_closed_run_closed,
            queue_rules::a_late_success_of_a_merged_run_closes_it,
            queue_rules::report_keeps_a_run_in_review_or_merged,
            patterns::a_resolved_pattern_seen_again_is_a_regression,
            patterns::attempt_begun_before_the_resolve_is_no_regression,
            patterns::late_report_of_an_earlier_attempt_is_no_regression,
            patterns::versioned_fix_regresses_only_on_that_version_or_newer,
            patterns::worker_versions_are_recorded_at_the_start,
            patterns::sixty_four_concurrent_sightings_make_one_pattern,
            patterns::merging_adds_figures_and_unmerging_restores_them,
            patterns::actions_on_a_merged_pattern_reach_its_target,
            patterns::pattern_actions_are_recorded_with_actor_and_reason,
            patterns::mute_expires,
            patterns::action_on_a_fingerprint_applies_to_every_tenant,
            patterns::another_tenants_pattern_is_not_found,
            patterns::hourly_failures_are_shown_for_seven_days,
            patterns::pattern_lists_filter_and_sort,
            decisions::a_fallback_queue_gets_the_run_and_its_counters,
            decisions::refused_success_is_a_failure_with_a_stable_answer,
            decisions::retry_spend_of_a_tenant_is_summed_by_day,
            engine::run_with_an_expired_lease_fails_as_silent,
            engine::live_workers_do_not_hide_a_silent_one,
            engine::our_own_absence_extends_a_lease_once,
            engine::rescue_records_our_absence_itself,
            engine::a_lease_that_ends_just_after_our_return_is_extended,
            engine::two_absences_in_a_row_are_both_remembered,
            engine::heartbeat_allows_another_absence_extension,
            engine::a_deadline_does_not_count_our_absence,
            engine::absence_does_not_count_as_idle_time,
            engine::downtime_leaves_nothing_unclaimed,
            engine::a_clock_set_forward_ends_no_live_attempt,
            engine::an_idle_attempt_and_a_passed_deadline_are_timeouts,
            engine::a_step_moves_the_idle_limit,
            engine::run_that_no_worker_begins_is_rejected,
            engine::three_silences_in_a_row_are_poison,
            engine::a_ledger_entry_is_kept_as_long_as_its_run,
            reviews::cancelling_does_not_get_around_the_approval_of_unsafe,
            ledger::explicit_step_key_shifts_no_unnamed_step,
            corrupt_rows::a_corrupt_row_does_not_stop_rescue,
            corrupt_rows::a_corrupt_row_does_not_stop_a_lease,
            corrupt_rows::corrupt_payload_costs_a_lease_call_one_run,
            corrupt_rows::a_corrupt_row_does_not_stop_the_unclaimed_sweep,
            corrupt_rows::a_corrupt_row_does_not_stop_expiring_reviews,
            corrupt_rows::a_corrupt_row_does_not_stop_a_release,
            corrupt_rows::a_corrupt_breaker_counts_as_closed,
            corrupt_rows::a_corrupt_probe_frees_its_breaker,
            corrupt_rows::a_corrupt_offer_goes_to_another_run,
            corrupt_rows::operation_skips_corrupt_rows,
            corrupt_rows::a_repaired_row_comes_back,
            reads::counts_follow_every_move,
            reads::a_scope_sees_only_its_own,
            reads::colliding_names_of_two_tenants_stay_apart,
            reads::changes_name_each_moved_run_once,
            reads::change_cursor_is_valid_only_in_its_scope,
            reads::history_prefixes_names_that_workers_claim,
            reads::health_names_queues_without_workers,
            reads::workers_of_one_tenant_serve_no_other,
            reads::standing_counts_dead_runs_by_cause,
            reads::runs_are_found_by_severity,
        }
    };
}

/// SQLite, in its own folder.
mod sqlite {
    use super::*;

    macro_rules! tests {
        ($($module:ident::$case:ident,)*) => {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    $module::$case(World::sqlite().await).await;
                }
            )*
        };
    }

    every_case!(tests);

    // Here the clock is the server's own.
    tests! {
        engine::a_clock_set_back_stops_neither_expiry_nor_retries,
        engine::restart_with_an_earlier_clock_continues,
        engine::clock_set_forward_and_back_expires_nothing,
        engine::a_clock_that_stays_forward_is_followed,
        engine::a_restart_with_a_later_clock_ends_nothing,
    }
}

/// PostgreSQL, in its own database.
mod postgres {
    use super::*;

    macro_rules! tests {
        ($($module:ident::$case:ident,)*) => {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    $module::$case(World::postgres().await).await;
                }
            )*
        };
    }

    every_case!(tests);
}

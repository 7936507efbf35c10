//! One suite for every store. A case is a function over a [`World`]; the list below is all there is, and each store
//! runs the whole of it.

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

/// Every case there is. A store that runs the suite hands in a macro that makes a test of each.
macro_rules! every_case {
    ($test:ident) => {
        $test! {
            reports::a_first_report_is_judged_kept_and_answered,
            reports::what_a_run_says_of_itself_is_kept_in_whatever_company_it_comes,
            reports::the_same_report_again_gets_the_stored_answer,
            reports::another_body_under_the_same_attempt_is_a_conflict,
            reports::without_a_number_the_same_words_are_a_resend_until_the_retry_is_due,
            reports::gaps_in_attempts_count_towards_the_budget,
            reports::past_the_last_attempt_a_failure_changes_nothing,
            reports::the_last_attempt_is_never_followed_by_another,
            reports::a_caller_cannot_succeed_past_the_last_attempt,
            reports::past_the_last_revision_a_fix_is_refused,
            reports::a_failure_reopens_a_closed_run,
            reports::a_payload_comes_back_byte_for_byte,
            reports::a_run_whose_payload_was_omitted_is_rejected_where_workers_retry,
            reports::a_resend_is_one_exactly_until_its_retry_is_due,
            reports::a_run_without_payload_is_dead_wherever_workers_retry,
            reports::a_queue_that_turns_to_workers_rejects_what_they_can_not_get,
            reports::sixty_four_at_once_are_recorded_once,
            reports::a_new_pattern_is_new_once_and_counted_for_its_tenant,
            reports::a_resend_after_the_retry_has_succeeded_opens_nothing,
            starts::whoever_enqueues_again_gets_nobodys_lease,
            starts::a_start_gets_a_lease_and_the_same_start_id_the_same_one,
            starts::a_scheduled_run_starts_when_it_is_due_and_not_before,
            starts::a_caller_may_start_before_the_due_time,
            starts::a_dead_run_refuses_a_start_with_its_verdict,
            starts::a_closed_run_answers_with_its_output_and_no_lease,
            starts::another_payload_under_the_same_run_is_a_conflict,
            sent::what_an_attempt_got_is_kept_beside_the_original,
            sent::a_lease_that_is_over_keeps_nothing,
            sent::a_released_attempt_that_goes_out_again_got_what_it_got_last,
            sent::the_same_start_again_gets_the_same_payload,
            sent::another_tenants_attempt_is_not_found,
            pages::attempts_are_paged_from_the_newest,
            pages::history_pages_hold_every_entry_once,
            pages::steps_are_paged_by_count_and_by_bytes,
            pages::large_attempts_make_small_pages,
            pages::a_cursor_of_another_run_or_list_is_refused,
            pages::outputs_of_steps_count_in_a_lease_answer,
            pages::outputs_of_one_run_are_kept_up_to_a_limit,
            pages::reconciled_outputs_count_in_the_limit,
            sent::an_attempt_number_never_reaches_another_run,
            sent::the_last_error_goes_with_the_change_that_asks_for_it,
            sent::a_run_that_can_never_fit_is_a_dead_letter_from_the_beginning,
            sent::a_queues_policy_is_what_was_set_last_and_asking_makes_no_queue,
            leases::ten_of_a_small_tenant_come_within_twenty_of_ten_thousand,
            leases::turns_go_on_where_the_last_call_stopped,
            leases::runs_of_one_order_key_go_out_one_at_a_time,
            leases::a_queue_named_thrice_hands_each_run_out_once,
            leases::an_agent_gets_only_what_it_can_do,
            leases::an_answer_holds_at_most_its_bytes_but_at_least_one_run,
            leases::a_fixed_payload_counts_with_the_length_it_has_now,
            leases::a_queue_whose_caller_retries_is_never_leased,
            leases::the_same_request_gets_the_same_leases_while_they_live,
            leases::a_request_is_known_within_its_scope_only,
            leases::runs_without_payload_starve_nobody,
            leases::a_tenant_without_work_for_the_caller_starves_nobody,
            leases::the_same_order_key_in_two_tenants_does_not_wait,
            leases::due_order_holds_across_queues,
            leases::due_order_holds_across_a_hundred_queues,
            leases::a_run_behind_five_thousand_for_another_agent_is_found,
            leases::a_busy_order_key_hides_nothing_behind_five_thousand,
            leases::what_becomes_free_in_front_is_found_while_more_keeps_coming,
            leases::calls_for_two_agents_at_once_get_their_own,
            starts::an_order_key_holds_for_starts_too,
            starts::an_early_begin_ends_a_deferral,
            starts::an_enqueued_run_without_payload_is_a_dead_letter,
            breakers::most_attempts_failing_open_it_and_what_falls_due_is_held,
            breakers::half_open_lets_one_of_a_hundred_through_to_sixteen_workers,
            breakers::a_crashed_probe_frees_the_slot,
            breakers::an_offer_that_nobody_takes_goes_to_another_run,
            breakers::a_thousand_unserved_runs_do_not_block_their_breaker,
            breakers::an_offer_that_is_deferred_goes_to_another_run,
            breakers::a_probe_that_is_given_back_goes_to_another_run,
            breakers::a_tenants_many_names_share_a_breaker,
            breakers::quiet_breakers_are_forgotten,
            breakers::an_attempt_counts_once_when_its_success_is_late,
            breakers::a_retry_on_another_model_is_that_models_concern,
            breakers::a_cancelled_probe_frees_the_slot,
            breakers::late_results_and_other_tenants_failures_move_nothing,
            breakers::what_began_before_a_restart_counts_where_nothing_has_changed_since,
            breakers::results_from_before_an_opening_say_nothing_after_a_restart_either,
            breakers::a_report_sent_again_is_told_how_the_breaker_stood_then,
            freezes::what_happened_to_a_breaker_is_kept_for_a_season,
            freezes::failures_older_than_the_window_are_not_told,
            breakers::reports_in_one_call_are_held_but_never_counted,
            breakers::an_open_breaker_delays_nobody_else,
            breakers::down_for_everybody_is_one_breaker,
            breakers::environments_have_their_own,
            freezes::a_freeze_holds_replays_and_ends_by_itself,
            freezes::a_replay_passes_an_open_breaker_and_the_plan_warns,
            breakers::a_held_run_refuses_a_start_and_a_caller_passes,
            breakers::what_is_let_go_comes_up_in_turn_and_apart,
            breakers::a_restart_keeps_breakers_windows_and_holds,
            freezes::a_tenant_at_its_limit_is_passed_over,
            freezes::others_under_way_count_for_no_limit,
            workers::a_heartbeat_renews_and_a_late_one_is_refused,
            workers::many_heartbeats_renew_each_lease_or_refuse_it,
            workers::success_recovers_a_run_that_had_failed,
            workers::the_same_end_again_gets_the_stored_answer,
            workers::another_end_under_an_ended_lease_is_a_conflict,
            workers::a_second_late_success_does_not_replace_the_first,
            workers::an_old_epoch_changes_nothing_by_any_verb,
            workers::a_lease_with_another_number_changes_nothing_of_anybodys,
            workers::a_late_success_counts_until_somebody_begins_anew,
            workers::a_success_beats_the_rescuer_that_looked_before_it,
            workers::a_late_failure_is_kept_as_evidence,
            workers::cut_evidence_of_a_late_failure_is_marked,
            workers::a_key_has_worked_on_what_it_began_or_reported,
            workers::a_released_attempt_keeps_its_number_and_waits_longer_each_time,
            workers::the_twentieth_release_in_a_row_is_a_failure,
            workers::a_failure_starts_the_count_of_releases_anew,
            workers::a_cancelled_worker_is_told_so_and_may_still_succeed,
            workers::a_committed_step_comes_back_and_an_open_effect_is_in_doubt,
            workers::an_effect_key_open_in_another_run_is_refused,
            workers::one_of_three_concurrent_calls_begins_an_effect,
            workers::a_lost_answer_is_asked_for_with_the_same_call,
            workers::only_the_call_that_began_an_effect_fails_it,
            workers::a_plain_step_that_becomes_an_effect_is_guarded,
            workers::a_plain_step_and_an_effect_of_one_key_are_guarded,
            workers::whoever_enqueues_a_known_run_sees_its_state,
            workers::a_worker_learns_no_output_that_is_not_its_own,
            workers::each_lease_of_a_run_has_another_proof,
            workers::the_outcome_of_an_effect_is_recorded_late,
            workers::a_caller_reports_success_without_a_lease,
            ledger::a_full_run_refuses_intents_and_drops_steps,
            ledger::an_effect_that_finds_no_room_is_in_doubt,
            ledger::an_ending_beyond_the_step_limit_is_kept,
            ledger::the_second_unnamed_effect_of_an_attempt_is_a_new_entry,
            ledger::the_first_unnamed_effect_of_a_replay_is_the_recorded_first,
            ledger::unnamed_steps_beyond_ascii_have_entries_of_their_own,
            ledger::an_unnamed_call_sent_again_is_the_same_entry,
            ledger::an_unnamed_outcome_sent_again_is_the_same_one,
            ledger::unnamed_steps_of_an_ending_are_known_by_their_place,
            ledger::a_failed_effect_gives_its_key_up_to_whoever_comes_next,
            ledger::an_effect_in_doubt_elsewhere_may_not_begin,
            ledger::what_an_ending_says_of_another_runs_key_counts_for_its_own_guard,
            ledger::a_plain_step_that_turns_out_an_effect_is_guarded,
            ledger::an_own_finished_effect_comes_back_before_another_runs,
            ledger::a_step_that_does_not_say_is_what_it_was_and_a_new_one_is_an_effect,
            ledger::effects_told_with_an_ending_are_guarded_on_every_path,
            ledger::a_released_run_with_an_effect_done_is_unsafe,
            ledger::a_replay_under_other_versions_says_so,
            fencing::every_verb_under_an_old_epoch_changes_nothing_but_what_that_epoch_began,
            fencing::a_late_ending_still_tells_the_outcomes_of_what_it_began,
            fencing::a_lease_that_nobody_gave_settles_nothing,
            fencing::a_lease_of_epoch_zero_settles_nothing,
            fencing::a_late_outcome_leaves_the_key_with_its_new_holder,
            fencing::a_live_lease_of_another_run_moves_neither_of_the_two,
            fencing::unnamed_effects_are_settled_late_in_the_order_of_their_beginning,
            fencing::a_late_outcome_is_in_the_history_and_the_run_stays,
            reconciling::a_person_settles_a_doubt_and_the_replay_skips_it,
            reconciling::what_a_person_says_of_a_run_and_what_its_worker_sends_keep_their_order,
            reconciling::what_was_not_done_is_begun_anew,
            reconciling::only_a_doubt_can_be_settled_and_only_once,
            reconciling::an_unnamed_effect_is_reached_through_its_run,
            reconciling::a_check_under_a_live_lease_settles_a_doubt,
            reconciling::the_worker_that_did_it_outweighs_a_person_who_thought_it_was_not_done,
            reconciling::another_tenants_effect_is_not_found,
            reconciling::a_look_up_finds_who_holds_the_key_then_who_gave_it_up,
            triage::a_replay_gives_a_fresh_budget,
            triage::closed_runs_open_only_by_force,
            triage::effects_guard_a_replay,
            triage::resolve_discard_and_note_are_in_the_history_with_actor_and_reason,
            triage::replays_are_capped,
            fixes::a_fix_is_a_new_revision_and_the_original_bytes_never_change,
            fixes::a_fix_made_from_another_revision_is_refused,
            fixes::a_payload_makes_a_run_replayable_that_came_without_one,
            fixes::a_replay_changes_agent_queue_and_model_and_says_something,
            fixes::from_a_step_on_plain_steps_are_offered_again_and_effects_never,
            fixes::a_replay_bound_to_another_plan_is_refused_with_the_plan_as_it_is,
            fixes::a_plan_tells_of_versions_that_the_workers_no_longer_have,
            fixes::a_plan_knows_only_workers_that_serve_its_tenant,
            fixes::a_plan_warns_of_its_own_tenants_order_key_only,
            fixes::a_replay_that_fails_again_comes_back_whole_and_past_the_cap_it_is_parked,
            reviews::a_replay_that_needs_approval_is_done_as_it_was_asked_for,
            reviews::an_approval_for_one_plan_lets_no_other_through,
            reviews::an_approval_that_nobody_gives_lapses_by_itself,
            reviews::a_late_yes_ends_the_review_as_the_clock_would_have,
            reviews::a_review_does_not_lapse_in_our_absence,
            reviews::whoever_asked_does_not_approve_unless_it_may_force,
            reviews::a_no_leaves_the_run_as_it_was,
            reviews::a_person_puts_a_run_aside_and_another_decides,
            reviews::force_passes_the_guards_and_no_approval,
            reviews::only_force_takes_the_place_of_a_forced_request,
            reviews::a_severity_asks_for_its_own_and_above,
            tenant_names::a_failure_beyond_the_queue_limit_goes_to_default,
            tenant_names::a_start_beyond_the_queue_limit_is_refused,
            tenant_names::a_reason_beyond_the_limit_counts_as_other,
            tenant_names::another_tenants_queue_looks_absent,
            tenant_names::a_star_of_one_tenant_finds_all_its_queues,
            verbs::every_verb_in_every_state_moves_or_says_why_not,
            verbs::whoever_looks_after_a_run_is_seen_and_found,
            verbs::a_reassigned_run_is_leased_and_counted_where_it_went,
            verbs::a_deferred_run_is_out_of_sight_until_its_time,
            verbs::a_failure_of_a_merged_run_is_its_targets_too,
            verbs::unmerging_takes_the_steps_back,
            verbs::runs_merge_within_a_tenant_never_into_themselves_and_come_apart_again,
            verbs::duplicates_share_a_key_or_a_payload_that_failed_the_same_way,
            operations::each_run_goes_through_the_single_verbs_guard,
            operations::every_action_in_every_state_does_what_the_single_verb_does,
            operations::what_was_previewed_is_exactly_what_is_started,
            operations::outcomes_are_counted_and_end_the_operation,
            operations::what_does_not_settle_in_time_does_not_hold_the_end_up,
            operations::a_canary_that_fails_stops_the_rest_and_names_what_joined,
            operations::a_canary_that_passes_lets_the_rest_go,
            operations::a_canary_that_is_through_rests_while_the_operation_is_paused,
            operations::a_canary_without_an_outcome_in_time_has_failed,
            operations::pause_resume_and_cancel_hold_from_the_next_batch_on,
            operations::after_the_answer_to_a_cancel_nothing_moves,
            operations::a_rate_is_kept,
            operations::a_patch_goes_over_every_payload_and_shows_what_it_does,
            operations::runs_named_one_by_one_are_met_once_and_the_missing_are_counted,
            operations::one_replica_at_a_time_works_an_operation,
            operations::beyond_ten_thousand_the_set_is_frozen_in_pieces_and_nothing_moves_before_it_is_whole,
            operations::pages_of_items_meet_each_once,
            operation_guards::a_run_replayed_during_the_freeze_is_left_alone,
            operation_guards::a_run_that_no_longer_matches_is_skipped,
            operation_guards::a_decision_since_the_freeze_skips_the_item,
            operation_guards::an_assignment_since_the_freeze_is_kept,
            operation_guards::a_payload_edited_since_the_freeze_is_not_moved,
            operation_guards::rounds_at_the_same_time_move_each_item_once,
            operation_guards::an_operation_that_can_not_be_worked_blocks_no_other,
            operation_guards::an_operation_continues_at_once_after_a_restart,
            operation_guards::a_dead_replicas_claim_ends_within_two_seconds,
            operation_guards::a_canary_items_outcome_is_its_first_attempts,
            operation_guards::a_canary_item_that_recovers_on_a_retry_has_failed,
            operation_guards::a_canary_item_without_an_outcome_in_time_stays_failed,
            operation_guards::pausing_again_and_again_does_not_stop_a_slow_operation,
            queue_rules::a_replay_into_another_queue_needs_the_approval_of_its_own,
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
            queue_rules::a_report_in_review_or_merged_keeps_the_place,
            patterns::a_resolved_pattern_seen_again_is_a_regression,
            patterns::an_attempt_from_before_the_resolve_is_no_regression,
            patterns::a_report_of_an_attempt_that_began_before_the_resolve_is_no_regression,
            patterns::a_fix_in_a_version_regresses_on_it_or_a_newer_one_and_on_no_older,
            patterns::a_worker_says_its_versions_when_it_begins,
            patterns::sixty_four_first_sights_at_once_make_one_pattern,
            patterns::a_merge_adds_the_figures_and_taking_it_back_restores_them,
            patterns::a_merged_pattern_is_acted_on_where_it_went,
            patterns::acts_are_recorded_with_actor_and_reason,
            patterns::a_mute_ends_by_itself,
            patterns::over_all_tenants_an_act_on_a_fingerprint_is_each_tenants,
            patterns::another_tenants_pattern_is_not_found,
            patterns::failures_are_told_by_the_hour_for_seven_days,
            patterns::lists_are_narrowed_and_sorted,
            decisions::a_fallback_queue_gets_the_run_and_its_counters,
            decisions::a_refused_success_is_a_failure_and_the_same_again_gets_its_answer,
            decisions::what_a_tenants_retries_use_is_summed_by_the_day,
            engine::a_run_left_alone_becomes_a_silent_failure,
            engine::those_who_are_alive_do_not_hide_the_one_who_is_not,
            engine::our_own_absence_extends_a_lease_once,
            engine::the_look_for_silence_notes_our_absence_itself,
            engine::a_lease_that_ends_just_after_our_return_is_extended,
            engine::two_absences_in_a_row_are_both_remembered,
            engine::a_heartbeat_gives_the_extension_back,
            engine::a_deadline_does_not_count_our_absence,
            engine::an_absence_is_no_idle_time,
            engine::time_without_a_server_leaves_nothing_unclaimed,
            engine::a_clock_set_forward_ends_no_live_attempt,
            engine::an_idle_attempt_and_a_passed_deadline_are_timeouts,
            engine::a_step_moves_the_idle_limit,
            engine::a_run_that_nobody_begins_is_rejected,
            engine::three_silences_in_a_row_are_poison,
            engine::a_ledger_entry_is_kept_as_long_as_its_run,
            reviews::cancelling_does_not_get_around_the_approval_of_unsafe,
            ledger::a_given_key_of_a_name_shifts_no_other,
            corrupt_rows::a_corrupt_row_does_not_stop_rescue,
            corrupt_rows::a_corrupt_row_does_not_stop_a_lease,
            corrupt_rows::a_corrupt_payload_costs_a_lease_call_one_run,
            corrupt_rows::a_corrupt_row_does_not_stop_the_unclaimed_sweep,
            corrupt_rows::a_corrupt_row_does_not_stop_expiring_reviews,
            corrupt_rows::a_corrupt_row_does_not_stop_a_release,
            corrupt_rows::a_corrupt_breaker_counts_as_closed,
            corrupt_rows::a_corrupt_probe_frees_its_breaker,
            corrupt_rows::a_corrupt_offer_goes_to_another_run,
            corrupt_rows::an_operation_passes_over_corrupt_rows,
            corrupt_rows::a_repaired_row_comes_back,
            reads::counts_follow_every_move,
            reads::a_scope_sees_only_its_own,
            reads::colliding_names_of_two_tenants_never_meet,
            reads::changes_name_each_moved_run_once,
            reads::a_cursor_into_the_changes_is_good_for_its_scope_only,
            reads::history_says_which_names_workers_gave_themselves,
            reads::health_names_a_queue_that_nobody_leases,
            reads::workers_of_one_tenant_serve_no_other,
            reads::a_first_look_says_why_the_dead_are_dead,
            reads::the_urgent_are_found_by_their_severity,
        }
    };
}

/// SQLite, in a folder of its own.
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

    // There the clock is the server's own.
    tests! {
        engine::a_clock_set_back_stops_neither_expiry_nor_retries,
        engine::a_restart_with_an_earlier_clock_goes_on,
        engine::a_clock_set_forward_and_back_hastens_nothing,
        engine::a_clock_that_stays_forward_is_followed,
        engine::a_restart_with_a_later_clock_ends_nothing,
    }
}

/// PostgreSQL, in a database of its own.
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
